//! The schema and the rule table are two enforcers of the same rules: what one refuses the other refuses too. Where they differ
//! stands in [`is_known_to_differ`].

use futures::{StreamExt, stream};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::Deserialize;
use serde_json::{Value, json};
use webservice_api::draft::Draft;
use webservice_api::rules;
use webservice_tests::bed::{TestNamespace, webservice};
use webservice_tests::prove::full;

/// How many generated objects are compared, and how many in full.
const OBJECTS: usize = 100;
const PROOF: usize = 1000;
/// How many of them at a time.
const AT_A_TIME: usize = 8;

/// Values of one field, right ones and wrong ones.
struct Field {
    name: &'static str,
    values: Vec<Value>,
}

fn texts(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!(text)).collect()
}

fn images() -> Vec<Value> {
    let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let mut images = texts(&[
        "nginx",
        "nginx:1.27",
        "library/nginx:1.27",
        "registry.example.com:5000/team/app",
        "localhost/app",
        "127.0.0.1:5000/app:x",
        "[::1]:5000/app:x",
        "Registry.Example.com/app:x",
        "UPPER/case",
        "a.b_c/d",
        "a_b/c.d",
        "app:Tag_with.UPPER-case",
        "a__b/c.d/e-f:1",
        "a---b:1",
        "",
        "  ",
        "nginx:",
        ":1.27",
        "nginx:1.27:oops",
        "Nginx",
        "registry.example.com/Team/app",
        "nginx:.dot",
        "nginx: 1",
        " nginx",
        "nginx\n",
        "/nginx",
        "nginx/",
        "a//b",
        "a..b/c",
        "a/-b",
        "a___b",
        "https://registry.example.com/app",
        "app@sha256:short",
        "app@",
        "[::1]",
        "[zz]/app",
        "host:port/app",
        digest,
        "ngіnx",
    ]);
    images.push(json!(format!("app@sha256:{digest}")));
    images.push(json!(format!("app:1@sha256:{digest}")));
    images.push(json!(format!("app@sha256:{}", digest.to_uppercase())));
    images.push(json!(format!("app:{}", "t".repeat(128))));
    images.push(json!(format!("app:{}", "t".repeat(129))));
    images.push(json!("a".repeat(1025)));
    images.extend([json!(7), json!([]), json!(true), Value::Null]);
    images
}

fn fields() -> Vec<Field> {
    let labels = ["dev", "a", "0", "a-b", "", "-a", "a-", "A", "a.b", "a_b", "ä"];
    let tiers = texts(&labels).into_iter().chain([
        json!("t".repeat(63)),
        json!("t".repeat(64)),
        json!(7),
        Value::Null,
    ]);
    let counts = [
        json!(0),
        json!(1),
        json!(2_147_483_647),
        json!(-1),
        json!(2_147_483_648_i64),
        json!(1.5),
        json!("3"),
    ];
    let named = |names: &[&str]| json!(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
    let many = |count: usize| json!((0..count).map(|i| json!({"name": format!("d{i}")})).collect::<Vec<_>>());
    vec![
        Field { name: "image", values: images() },
        Field { name: "tier", values: tiers.collect() },
        Field {
            name: "replicas",
            values: counts.into_iter().chain([json!(true), json!({}), Value::Null]).collect(),
        },
        Field {
            name: "suspend",
            values: vec![json!(true), json!(false), json!("false"), json!(0), Value::Null],
        },
        Field {
            name: "dependsOn",
            values: vec![
                json!([]),
                named(&["a", "b"]),
                named(&["a", "a"]),
                named(&["Upper"]),
                named(&[""]),
                named(&["checkout"]),
                many(32),
                many(33),
                json!(["a"]),
                json!("a"),
                json!([{}]),
                Value::Null,
            ],
        },
    ]
}

#[tokio::test]
async fn the_schema_refuses_what_the_rules_refuse_and_nothing_else() {
    let ns = TestNamespace::new().await;
    let mut compared = 0;
    for Field { name, values } in fields() {
        for value in values {
            let object = Value::from(webservice("checkout").spec(name, value));
            let draft = Draft::deserialize(&object).expect("every JSON value is a draft");
            let violations = rules::check_structure(&draft);
            if violations.is_empty() {
                ns.webservices().accepts(object).await;
            } else {
                ns.webservices().rejects(object).await;
            }
            compared += 1;
        }
    }
    assert!(compared > 80, "only {compared} values were compared");
}

#[tokio::test]
async fn the_schema_refuses_the_names_that_the_rules_refuse() {
    let ns = TestNamespace::new().await;
    ns.webservices().accepts(webservice(&"a".repeat(63))).await;
    for name in ["a.b".to_owned(), "a".repeat(64), "-a".to_owned(), "A".to_owned()] {
        ns.webservices().rejects(webservice(&name)).await;
    }
}

/// All differences that there are, each with its reason.
fn is_known_to_differ(object: &Value) -> bool {
    let image = object["spec"]["image"].as_str().unwrap_or_default();
    // A repository with all that it stands for (docker.io/library/…) has at most 255 characters: no pattern can count that.
    image.len() > 200
}

fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i16>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        "[a-zA-Z0-9:/@._ -]{0,6}".prop_map(Value::from),
    ];
    let composed = |inner: BoxedStrategy<Value>| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            inner.prop_map(|value| json!({"name": value})),
        ]
    };
    leaf.prop_recursive(2, 6, 3, move |inner| composed(inner.boxed())).boxed()
}

/// Nothing, something near to what is right, one of the values above, or anything.
fn member(name: &str, near: BoxedStrategy<Value>) -> BoxedStrategy<Option<Value>> {
    let known = fields().into_iter().find(|field| field.name == name).unwrap().values;
    prop_oneof![
        1 => Just(None),
        12 => near.prop_map(Some),
        2 => prop::sample::select(known).prop_map(Some),
        1 => any_json().prop_map(Some),
    ]
    .boxed()
}

fn any_object() -> BoxedStrategy<Value> {
    let image = "([a-zA-Z0-9.]{1,5}[.:][0-9a-z]{1,3}/)?[a-z0-9]{1,4}(([._]|-+)[a-z0-9]{1,2})?(/[a-z0-9]{1,4}[._]?)?(:[a-zA-Z0-9_][a-zA-Z0-9._-]{0,4})?";
    let label = "[a-z0-9]{0,3}[a-z0-9-]{0,2}[a-z0-9]{1,2}";
    let names = prop::collection::vec(label.prop_map(|name| json!({"name": name})), 0..4);
    let name = prop_oneof![8 => "[a-z][a-z0-9]{0,6}", 1 => "[a-z0-9.-]{1,6}".prop_filter("sent in a path", |name| !name.contains(".."))];
    (
        name,
        member("image", image.prop_map(Value::from).boxed()),
        member("replicas", (-1..i64::from(i32::MAX)).prop_map(Value::from).boxed()),
        member("tier", label.prop_map(Value::from).boxed()),
        member("dependsOn", names.prop_map(Value::from).boxed()),
        member("suspend", any::<bool>().prop_map(Value::from).boxed()),
    )
        .prop_map(|(name, image, replicas, tier, depends_on, suspend)| {
            let mut object = Value::from(webservice(&name).edit(|object| object["spec"] = json!({})));
            let given = [
                ("image", image),
                ("replicas", replicas),
                ("tier", tier),
                ("dependsOn", depends_on),
                ("suspend", suspend),
            ];
            for (name, value) in given {
                if let Some(value) = value {
                    object["spec"][name] = value;
                }
            }
            object
        })
        .boxed()
}

/// The same objects in each run, so that a difference that is found once is found again.
fn generated(count: usize) -> Vec<Value> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = any_object();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// What rules and schema say of an object, where it is not the same.
async fn difference(ns: &TestNamespace, object: Value) -> Option<String> {
    let violations = rules::check_structure(&Draft::deserialize(&object).unwrap());
    let answer = ns.webservices().try_accept(object.clone()).await;
    if let Err(refusal) = &answer {
        assert!((400..500).contains(&refusal.code), "{object} is answered by {refusal}");
    }
    let is_same = answer.is_ok() == violations.is_empty();
    let answer = answer.map(|_| "accepts it").map_err(|refusal| refusal.message);
    (!is_same).then(|| format!("{object}\n  rules: {}\n  schema: {answer:?}", rules::sentence(&violations)))
}

#[tokio::test]
async fn schema_and_rules_agree_about_generated_objects() {
    let ns = TestNamespace::new().await;
    let count = full(OBJECTS, PROOF);
    let objects: Vec<_> = generated(count).into_iter().filter(|object| !is_known_to_differ(object)).collect();
    let is_sound = |object: &&Value| rules::check_structure(&Draft::deserialize(*object).unwrap()).is_empty();
    let sound = objects.iter().filter(is_sound).count();
    assert!(
        sound > count / 20 && sound < count / 2,
        "{sound} of {count} objects are sound: they show little"
    );

    let compared = stream::iter(objects).map(|object| difference(&ns, object)).buffer_unordered(AT_A_TIME);
    let differences: Vec<_> = compared.filter_map(std::future::ready).collect().await;
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
