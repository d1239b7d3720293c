//! Every field against the schemas of the Kubernetes that the clusters run and of cert-manager, strictly: an unknown field, which the
//! API server drops in silence, is an error here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use webservice_tests::cargo::root;
use webservice_tests::cluster::progress::Silent;
use webservice_tests::cluster::tools::{KUBECONFORM, cert_manager_crds};
use webservice_tests::cluster::{Kubernetes, assets};

use crate::helm::{EVERYTHING, MODES, Release};

/// Kinds whose definition no Go module here has.
const SKIPPED: &str = "ServiceMonitor,PrometheusRule";

#[tokio::test]
async fn every_field_is_known_to_kubernetes() {
    let schemas = tempfile::tempdir().unwrap();
    let kubernetes =
        assets::sources(Kubernetes::chosen().unwrap().module(), "k8s.io/kubernetes").await.unwrap();
    write_builtin(&kubernetes, schemas.path());
    write_custom(&cert_manager_crds().await.unwrap(), schemas.path());
    for mode in MODES {
        let text = Release::new().set(EVERYTHING).set(mode).text().await;
        let said = validate(&text, schemas.path()).await;
        assert!(said.contains("Invalid: 0, Errors: 0, Skipped: 2"), "{mode:?}: {said}");
    }
    let said = validate("{apiVersion: v1, kind: Service, spec: {prots: []}}", schemas.path()).await;
    assert!(said.contains("prots"), "it finds nothing: {said}");
    let installed = fs::read_to_string(root().join("dist/install.yaml")).unwrap();
    let said = validate(&installed, schemas.path()).await;
    assert!(said.contains("Invalid: 0, Errors: 0, Skipped: 0"), "{said}");
}

async fn validate(manifests: &str, schemas: &Path) -> String {
    let location = schemas.join("{{.ResourceKind}}{{.KindSuffix}}.json");
    let input = schemas.join("input.yaml");
    fs::write(&input, manifests).unwrap();
    let mut command = Command::new(assets::program(&KUBECONFORM, &Silent).await.unwrap());
    command.args(["-strict", "-summary", "-skip", SKIPPED, "-schema-location"]).arg(location).arg(input);
    let output = command.stdin(Stdio::null()).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The kinds of the API server, from its OpenAPI document.
fn write_builtin(kubernetes: &Path, to: &Path) {
    let document = fs::read(kubernetes.join("api/openapi-spec/swagger.json")).unwrap();
    let mut document: Value = serde_json::from_slice(&document).unwrap();
    let definitions = document["definitions"].as_object_mut().unwrap();
    let number_or_text = json!({"type": ["string", "integer"]});
    definitions.insert("io.k8s.apimachinery.pkg.util.intstr.IntOrString".into(), number_or_text);
    definitions.values_mut().for_each(close);
    for (name, definition) in definitions.iter() {
        if let [kind] =
            definition["x-kubernetes-group-version-kind"].as_array().map_or(&[][..], Vec::as_slice)
        {
            let schema =
                json!({"$ref": format!("#/definitions/{name}"), "definitions": needed(definitions, name)});
            write(to, kind["group"].as_str(), &kind["version"], &kind["kind"], &schema);
        }
    }
}

/// A definition and all that it refers to.
fn needed<'d>(definitions: &'d Map<String, Value>, name: &str) -> Map<String, Value> {
    let mut found = Map::new();
    let mut open = BTreeSet::from([name.to_owned()]);
    while let Some(name) = open.pop_first() {
        let definition: &'d Value = &definitions[&name];
        references(definition, &mut open);
        found.insert(name, definition.clone());
        open.retain(|name| !found.contains_key(name));
    }
    found
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                into.insert(reference.trim_start_matches("#/definitions/").to_owned());
            }
            members.values().for_each(|member| references(member, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

/// The kinds of all CRDs in a directory.
fn write_custom(crds: &Path, to: &Path) {
    let files = fs::read_dir(crds).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let text = fs::read_to_string(file).unwrap();
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            close(&mut schema);
            let spec = &crd["spec"];
            write(to, spec["group"].as_str(), &version["name"], &spec["names"]["kind"], &schema);
        }
    }
}

/// Refuses members that a schema does not name.
fn close(schema: &mut Value) {
    let Value::Object(members) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(close);
        }
        return;
    };
    let is_open = members.contains_key("additionalProperties")
        || members.contains_key("x-kubernetes-preserve-unknown-fields");
    if members.get("properties").is_some_and(Value::is_object) && !is_open {
        members.insert("additionalProperties".into(), false.into());
    }
    members.values_mut().for_each(close);
}

/// Writes a schema under the name that kubeconform looks for: `kind-group-version.json`, of the group its first word.
fn write(to: &Path, group: Option<&str>, version: &Value, kind: &Value, schema: &Value) {
    let group = group.and_then(|group| group.split('.').next()).filter(|group| !group.is_empty());
    let words = [kind.as_str(), group, version.as_str()];
    let name = words.into_iter().flatten().collect::<Vec<_>>().join("-").to_lowercase();
    fs::write(to.join(name).with_added_extension("json"), schema.to_string()).unwrap();
}
