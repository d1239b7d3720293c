//! What holds of every object, whatever stands in it. `PROPTEST_CASES` says over how many; see `cargo xtask prove rules`.

use std::env;

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::rules::example;

/// How many objects each property is tried on in the ordinary run: as many as take about a second.
const CASES: u32 = 1000;

fn cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    let cases = if env::var_os("PROPTEST_CASES").is_some() { config.cases } else { CASES };
    ProptestConfig { cases, failure_persistence: None, ..config }
}

fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".{0,8}".prop_map(Value::from),
    ];
    let composed = |inner: BoxedStrategy<Value>| {
        let name = prop_oneof![Just("name".to_owned()), Just("image".to_owned()), "[a-z~/]{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    };
    leaf.prop_recursive(3, 16, 4, move |inner| composed(inner.boxed())).boxed()
}

/// A value of a member: none, one of these, or anything.
fn member(good: &[Value]) -> BoxedStrategy<Option<Value>> {
    prop_oneof![
        2 => Just(None),
        4 => prop::sample::select(good.to_vec()).prop_map(Some),
        2 => any_json().prop_map(Some),
    ]
    .boxed()
}

/// The same without the anything.
fn good_member(good: &[Value]) -> BoxedStrategy<Option<Value>> {
    prop::option::of(prop::sample::select(good.to_vec())).boxed()
}

type Member = fn(&[Value]) -> BoxedStrategy<Option<Value>>;

fn object_of(members: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let built = move |values: Vec<Option<Value>>| {
        let given = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::from(given.collect::<Map<_, _>>())
    };
    values.prop_map(built).boxed()
}

fn metadata(member: Member) -> BoxedStrategy<Value> {
    let lists = [json!(null), json!([]), json!(["x.io/keep"]), json!([FINALIZER]), json!(["a/b", FINALIZER])];
    object_of(vec![
        ("name", member(&[json!("checkout"), json!("a")])),
        ("finalizers", member(&lists)),
        ("labels", member(&[json!({"team": "shop"})])),
        ("later", any_json().prop_map(Some).boxed()),
    ])
}

fn spec(member: Member, image: BoxedStrategy<Option<Value>>) -> BoxedStrategy<Value> {
    object_of(vec![
        ("image", image),
        ("replicas", member(&[json!(0), json!(3), json!(99), json!(null)])),
        ("tier", member(&[json!("dev"), json!("prod"), json!("x"), json!(null)])),
        ("dependsOn", member(&[json!([{"name": "search"}]), json!([]), json!(null)])),
        ("suspend", member(&[json!(true), json!(null)])),
        ("later", any_json().prop_map(Some).boxed()),
    ])
}

fn images() -> Vec<Value> {
    ["nginx", "nginx:1.27", "quay.io/team/app:1", "registry.example.com:5000/team/app:1"]
        .map(Value::from)
        .into()
}

/// Anything that may come as an object: mostly one that looks like a WebService.
fn any_object() -> BoxedStrategy<Value> {
    let metadata = prop_oneof![8 => metadata(member), 1 => any_json()].prop_map(Some);
    let spec = prop_oneof![8 => spec(member, member(&images())), 1 => any_json()];
    let object = object_of(vec![
        ("metadata", metadata.boxed()),
        ("spec", prop::option::weighted(0.95, spec).boxed()),
        ("status", any_json().prop_map(Some).boxed()),
    ]);
    prop_oneof![20 => object, 1 => any_json()].boxed()
}

/// An object that lacks nothing but defaults.
fn sound_object() -> BoxedStrategy<Value> {
    let image = prop::sample::select(images()).prop_map(Some).boxed();
    object_of(vec![
        ("metadata", metadata(good_member).prop_map(Some).boxed()),
        ("spec", spec(good_member, image).prop_map(Some).boxed()),
    ])
}

fn created<'r, 'a>(object: &'r Draft<'a>) -> Request<'r, 'a> {
    Request { operation: Operation::Create, subresource: "", object: Some(object), old_object: None }
}

fn draft(object: &Value) -> Draft<'_> {
    Draft::deserialize(object).expect("every JSON value is a draft")
}

fn mutated(object: &Value) -> Value {
    let mutation = mutate(&created(&draft(object)));
    let mut result = object.clone();
    json_patch::patch(&mut result, &mutation.patch).expect("the patch applies");
    result
}

/// The object without what is ours to complete.
fn rest(mut object: Value) -> Value {
    for (parent, member) in [("spec", "replicas"), ("spec", "tier"), ("metadata", "finalizers")] {
        if let Some(members) = object.get_mut(parent).and_then(Value::as_object_mut) {
            members.remove(member);
        }
    }
    object
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn mutating_twice_changes_nothing_more(object in any_object()) {
        let once = mutated(&object);
        prop_assert_eq!(mutate(&created(&draft(&once))), Mutation::default());
    }

    #[test]
    fn mutation_touches_nothing_but_what_it_completes(object in any_object()) {
        let after = mutated(&object);
        prop_assert_eq!(rest(after.clone()), rest(object.clone()));
        for field in ["/spec/replicas", "/spec/tier"] {
            if let Some(given) = object.pointer(field).filter(|given| !given.is_null()) {
                prop_assert_eq!(after.pointer(field), Some(given));
            }
        }
    }

    #[test]
    fn mutation_changes_nothing_about_what_the_rules_find(object in any_object()) {
        let after = mutated(&object);
        for policy in [Policy::default(), example::policy().expect("the example is a policy")] {
            let request = (&draft(&object), &draft(&after));
            prop_assert_eq!(validate(&created(request.0), &policy), validate(&created(request.1), &policy));
        }
    }

    #[test]
    fn what_lacks_nothing_but_defaults_is_valid_when_it_has_them(object in sound_object()) {
        let after = mutated(&object);
        prop_assert_eq!(validate(&created(&draft(&after)), &Policy::default()).violations, vec![]);
        prop_assert_eq!(&after["spec"]["later"], &object["spec"]["later"]);
        prop_assert!(after["spec"]["replicas"].is_i64() && after["spec"]["tier"].is_string());
        prop_assert!(draft(&after).has_finalizer(FINALIZER));
    }

    #[test]
    fn an_update_that_changes_nothing_is_never_refused(object in any_object()) {
        let policy = example::policy().expect("the example is a policy");
        let same = draft(&object);
        let update = Request { operation: Operation::Update, old_object: Some(&same), ..created(&same) };
        prop_assert_eq!(validate(&update, &policy).violations, vec![]);
    }
}
