//! A controller that serves some namespaces, with rights in each of them and nowhere else.

use webservice_api::rbac;
use webservice_tests::bed::{ControllerSetup, TestNamespace, eventually, webservice};

/// A controller that serves both.
fn serving<'n>(ns: &'n TestNamespace, other: &TestNamespace) -> ControllerSetup<'n> {
    ns.controller().flags([format!("--namespaces={}", other.name()).as_str()])
}

#[tokio::test]
async fn a_role_in_each_of_the_named_namespaces_is_all_that_is_needed() {
    let (ns, other) = (TestNamespace::new().await, TestNamespace::new().await);
    ns.grant_in(&other, rbac::controller()).await;
    let mark = ns.mark().await;
    let _controller = serving(&ns, &other).start().await;
    for namespace in [&ns, &other] {
        namespace.webservices().create(webservice("checkout")).await;
        namespace.await_ready("checkout").await;
    }
    let calls = ns.calls_since(&mark).await;
    let refused: Vec<_> = calls.all().iter().filter(|call| call.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn a_right_that_is_missing_in_one_namespace_is_named_and_stops_no_other() {
    let (ns, other) = (TestNamespace::new().await, TestNamespace::new().await);
    let mut rights = rbac::controller();
    rights.retain(|rule| rule.resources != Some(vec!["configmaps".to_owned()]));
    ns.grant_in(&other, rights).await;
    other.webservices().create(webservice("checkout")).await;

    let controller = serving(&ns, &other).launch().await;
    ns.webservices().create(webservice("checkout")).await;
    ns.await_ready("checkout").await;

    let missing = format!("configmaps in namespace {}", other.name());
    eventually("the missing right is named", async || match controller.probe("/readyz?verbose").await {
        (503, text) if text.contains(&missing) => Ok(()),
        (code, text) => Err(format!("{code} {text}")),
    })
    .await;
    let untouched = other.webservices().get("checkout").await;
    assert!(
        untouched["metadata"]["finalizers"].is_null(),
        "no half-seen namespace is worked on: {untouched:#}"
    );

    ns.grant_in(&other, rbac::controller()).await;
    other.await_ready("checkout").await;
    controller.await_readyz().await;
}
