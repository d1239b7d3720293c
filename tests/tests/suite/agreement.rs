//! The schema and the rule table are two enforcers of the same rules: what one refuses the other refuses too. One thing is left to
//! the table alone: that a repository with all it stands for (`docker.io/library/…`) has at most 255 characters.

use serde::Deserialize;
use serde_json::{Value, json};
use webservice_api::draft::Draft;
use webservice_api::rules;
use webservice_tests::bed::{TestNamespace, webservice};

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
