//! Long chains of `dependsOn`: each link is woken by the one before it, and nobody polls.

use futures::{StreamExt, stream};
use webservice_api::constants::FINALIZER;
use webservice_tests::bed::{DEADLINE, TestNamespace, is_ready, name, version, webservice, within};
use webservice_tests::prove::full;

const LINKS: usize = 100;
/// How many in full.
const MANY_LINKS: usize = 1000;
/// Links that are created at a time.
const AT_A_TIME: usize = 16;

fn link(number: usize) -> String {
    format!("link-{number:04}")
}

/// Creates a chain from its end to its beginning, so that each link waits for one that is not there yet.
async fn create_chain(ns: &TestNamespace, links: usize) {
    let create = async |number: usize| {
        let object = webservice(&link(number)).finalizers([FINALIZER]);
        let object = if number == 0 { object } else { object.depends_on([&*link(number - 1)]) };
        ns.webservices().create(object).await;
    };
    stream::iter((0..links).rev()).for_each_concurrent(AT_A_TIME, create).await;
}

#[tokio::test]
async fn a_long_chain_comes_up_in_its_order_with_fewer_than_three_writes_for_each_link() {
    let links = full(LINKS, MANY_LINKS);
    let ns = TestNamespace::new().await;
    create_chain(&ns, links).await;
    let mark = ns.mark().await;

    let controller = ns.start_controller().await;
    within(3 * DEADLINE, "the last link is Ready", async || {
        let last = ns.webservices().get(&link(links - 1)).await;
        if is_ready(&last) { Ok(()) } else { Err(last["status"].to_string()) }
    })
    .await;

    let children = ns.config_maps().list().await;
    let mut in_order: Vec<_> = children.iter().filter(|map| name(map).starts_with("link-")).collect();
    in_order.sort_by_key(|map| version(map).parse::<u64>().unwrap());
    let expected: Vec<_> = (0..links).map(|number| format!("{}-desired", link(number))).collect();
    assert_eq!(in_order.into_iter().map(name).collect::<Vec<_>>(), expected);
    let writes = ns.writes_since(&mark, &controller).await;
    let again = controller.given_up();
    let creations = writes.iter().filter(|write| write.starts_with("create configmaps ")).count();
    assert!((links..=links + again).contains(&creations), "{writes:?}");
    // A child and a report for each, and a report that it waits for those that were looked at before their turn.
    assert!(
        (2 * links..3 * links + again).contains(&writes.len()),
        "{} writes for {links}: {writes:?}",
        writes.len()
    );
}
