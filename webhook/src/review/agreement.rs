//! What this decoder reads is what kube's full types read, for every review that an API server could send.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionReview, Operation as KubeOperation};
use proptest::prelude::*;
use serde_json::{Value, json};
use webservice_api::admission;

use super::*;
use crate::decide::{self, Decision};
use crate::terms::Terms;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\é{}\\[\\]]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z\"]{1,6}", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn some_of(values: &Value) -> impl Strategy<Value = Value> + use<> {
    prop::sample::select(values.as_array().cloned().unwrap_or_default())
}

fn insert(object: &mut Value, members: impl IntoIterator<Item = (&'static str, Option<Value>)>) {
    for (name, value) in members {
        if let Some(value) = value {
            object[name] = value;
        }
    }
}

prop_compose! {
    fn any_object()(
        name in prop::option::of(some_of(&json!(["checkout", "a\"b"]))),
        finalizers in prop::option::of(some_of(&json!([null, [], ["x.io/keep"], ["webservice.labhub.io/cleanup"]]))),
        deleted in prop::option::weighted(0.2, Just(json!("2026-01-01T00:00:00Z"))),
        annotations in prop::option::of(prop::collection::hash_map("[a-z]{1,4}", "[\\PC]{0,80}", 0..3)),
        fields in prop::collection::vec(any_value(), 0..3),
        spec in prop::option::of(any_value()),
        known in any::<bool>(),
        image in prop::option::of(any_value()),
        replicas in prop::option::of(any_value()),
        tier in prop::option::of(some_of(&json!(["dev", "Prod", null, 7]))),
        status in prop::option::of(any_value()),
    ) -> Value {
        let mut object = json!({"apiVersion": "apps.labhub.io/v1", "kind": "WebService", "metadata": {"uid": "o"}});
        insert(&mut object["metadata"], [
            ("name", name),
            ("finalizers", finalizers),
            ("deletionTimestamp", deleted),
            ("annotations", annotations.map(|annotations| json!(annotations))),
            ("managedFields", Some(fields.into_iter().map(|fields| json!({"fieldsV1": fields})).collect())),
        ]);
        let mut fields = json!({});
        insert(&mut fields, [("image", image), ("replicas", replicas), ("tier", tier)]);
        insert(&mut object, [("status", status), ("spec", if known { Some(fields) } else { spec })]);
        object
    }
}

prop_compose! {
    fn any_review()(
        uid in "[a-z0-9\"\\\\é]{1,12}",
        operation in some_of(&json!(["CREATE", "UPDATE", "DELETE", "CONNECT"])),
        kind in some_of(&json!([["apps.labhub.io", "WebService"], ["", "ConfigMap"]])),
        name in prop::option::of(some_of(&json!(["", "checkout"]))),
        namespace in prop::option::of(some_of(&json!([null, "shop"]))),
        subresource in prop::option::of(some_of(&json!([null, "", "status", "scale"]))),
        object in prop::option::of(any_object()),
        old in prop::option::of(any_object()),
        options in prop::option::of(any_value().prop_map(|extra| json!({"kind": "CreateOptions", "x": extra}))),
    ) -> Value {
        let mut request = json!({
            "uid": uid,
            "operation": operation,
            "kind": {"group": kind[0], "version": "v1", "kind": kind[1]},
            "resource": {"group": kind[0], "version": "v1", "resource": "things"},
            "userInfo": {"username": "somebody", "extra": {"a": ["}"]}},
        });
        insert(&mut request, [
            ("name", name),
            ("namespace", namespace),
            ("subResource", subresource),
            ("object", object),
            ("oldObject", old),
            ("options", options),
        ]);
        json!({"apiVersion": API_VERSION, "kind": REVIEW_KIND, "request": request})
    }
}

fn operation(operation: &KubeOperation) -> Operation {
    match operation {
        KubeOperation::Create => Operation::Create,
        KubeOperation::Update => Operation::Update,
        KubeOperation::Delete => Operation::Delete,
        KubeOperation::Connect => Operation::Connect,
    }
}

proptest! {
    #[test]
    fn of_a_condensed_review_the_same_is_read(review in any_review(), length in 1..500_usize) {
        let text = review.to_string();
        let mut condensed = json::Condensed::default();
        text.as_bytes().chunks(length).for_each(|piece| condensed.push(piece));
        let condensed = condensed.into_text();
        prop_assert_eq!(Review::decode(&condensed).unwrap(), Review::decode(text.as_bytes()).unwrap());
    }

    #[test]
    fn kube_reads_the_same(review in any_review()) {
        let text = review.to_string();
        let theirs: AdmissionReview<DynamicObject> = serde_json::from_str(&text).unwrap();
        let theirs: AdmissionRequest<DynamicObject> = theirs.try_into().unwrap();
        let ours = Review::decode(text.as_bytes()).unwrap();

        prop_assert_eq!(&*ours.uid, &theirs.uid);
        prop_assert_eq!(ours.operation, operation(&theirs.operation));
        prop_assert_eq!(&*ours.subresource, theirs.sub_resource.as_deref().unwrap_or_default());
        prop_assert_eq!((&*ours.name, &*ours.namespace), (&*theirs.name, theirs.namespace.as_deref().unwrap_or_default()));
        prop_assert_eq!(ours.concerns_us, theirs.kind.group == GROUP && theirs.kind.kind == KIND);

        let objects = [&theirs.object, &theirs.old_object].map(|object| serde_json::to_value(object).unwrap());
        let [new, old] = objects.each_ref().map(|object| Option::<Draft>::deserialize(object).unwrap());
        prop_assert_eq!(ours.objects.as_ref().unwrap(), &Objects { new: new.clone(), old: old.clone() });

        let request = Request {
            operation: operation(&theirs.operation),
            subresource: theirs.sub_resource.as_deref().unwrap_or_default(),
            object: new.as_ref(),
            old_object: old.as_ref(),
        };
        let expected = if ours.concerns_us { admission::mutate(&request) } else { admission::Mutation::default() };
        let Decision::Allow { patch, defaulted, .. } = decide::mutate(&ours, &Terms::default()) else { panic!("mutation refuses") };
        prop_assert_eq!((patch, defaulted), (expected.patch, expected.defaulted));
    }
}
