//! Nothing happens while nothing happens.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use webservice_tests::bed::{TestNamespace, webservice};
use webservice_tests::prove::full;

const OBJECTS: usize = 50;
/// Longer than one watch: the controller has to take them up again within it.
const QUIET: Duration = Duration::from_mins(1);
/// How long it is quiet in full.
const PROOF: Duration = Duration::from_mins(5);

#[tokio::test]
async fn fifty_webservices_at_rest_lead_to_no_write_at_all() {
    let ns = TestNamespace::with_operator().await;
    for number in 0..OBJECTS {
        ns.webservices().create(webservice(&format!("w-{number}"))).await;
    }
    ns.controller.settle(&ns).await;

    let mark = ns.mark().await;
    let quiet = full(QUIET, PROOF);
    // The only thing here that waits for time to pass, since that is what it is about.
    sleep_until(Instant::now() + quiet).await;

    let calls = ns.calls_since(&mark).await;
    let writes: Vec<_> = calls.all().iter().filter(|call| call.is_write()).map(ToString::to_string).collect();
    assert_eq!(writes, Vec::<String>::new(), "within {quiet:?}");
    assert_eq!(calls.reads(), Vec::<String>::new(), "within {quiet:?}");
    let watches = calls.all().iter().filter(|call| call.verb == "watch").count();
    assert!(watches > 0, "not one watch was taken up again: the log of calls is not complete");
}
