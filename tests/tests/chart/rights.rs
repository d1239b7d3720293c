use serde_json::Value;

use crate::helm::{EVERYTHING, MODES, Manifests, Release, name, strings};

fn roles(manifests: &Manifests) -> Vec<&Value> {
    [manifests.of("Role"), manifests.of("ClusterRole")].concat()
}

fn rules(role: &Value) -> impl Iterator<Item = &Value> {
    role["rules"].as_array().unwrap().iter()
}

#[tokio::test]
async fn nothing_is_granted_by_wildcard_and_every_verb_says_what_for() {
    for mode in MODES {
        let release = Release::new().set(EVERYTHING).set(mode);
        for role in roles(&release.render().await) {
            for rule in rules(role) {
                assert!(!rule.to_string().contains('*'), "{role}");
            }
        }
        let text = release.text().await;
        let mut in_verbs = false;
        for line in text.lines() {
            let is_item = line.trim_start().starts_with("- ");
            in_verbs = line.trim() == "verbs:" || (in_verbs && is_item && !line.contains("apiGroups"));
            assert!(!in_verbs || !is_item || line.contains(" # "), "{line}");
        }
    }
}

#[tokio::test]
async fn secrets_are_for_the_operators_own_namespace_and_for_self_managed_mode() {
    for mode in MODES {
        let manifests = Release::named("r", "ns").set(mode).render().await;
        let roles = roles(&manifests);
        let about_secrets: Vec<_> = roles
            .iter()
            .filter(|role| rules(role).any(|rule| strings(&rule["resources"]).contains(&"secrets")))
            .collect();
        assert!(about_secrets.iter().all(|role| role["metadata"]["namespace"] == "ns"));
        assert_eq!(about_secrets.is_empty(), mode != MODES[0], "{mode:?}");
    }
}

#[tokio::test]
async fn with_namespaces_named_the_controller_has_a_role_in_each_and_none_in_the_cluster() {
    let manifests = Release::named("r", "ns").set(&["watchNamespaces={shop,pay}"]).render().await;
    let about_maps =
        |role: &&Value| rules(role).any(|rule| strings(&rule["resources"]).contains(&"configmaps"));
    let roles: Vec<_> = roles(&manifests).into_iter().filter(about_maps).collect();
    let mut places: Vec<_> =
        roles.iter().map(|role| role["metadata"]["namespace"].as_str().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, ["pay", "shop"]);
}

#[tokio::test]
async fn webservices_are_created_by_nobody_but_to_ask_for_the_webhook_in_one_namespace() {
    for (values, place) in [(&[][..], "ns"), (&["watchNamespaces={shop,pay}"], "shop")] {
        let manifests = Release::named("r", "ns").set(values).set(&["rbac.aggregate=false"]).render().await;
        let creates = |rule: &Value| {
            strings(&rule["resources"]) == ["webservices"] && strings(&rule["verbs"]).contains(&"create")
        };
        let roles: Vec<_> = roles(&manifests).into_iter().filter(|role| rules(role).any(creates)).collect();
        let names: Vec<_> = roles.iter().map(|role| name(role)).collect();
        assert_eq!(names, ["ns-r-webservice-operator-probe", "r-webservice-operator-test"]);
        assert!(roles.iter().all(|role| role["metadata"]["namespace"] == place), "{names:?}");
    }
}

#[tokio::test]
async fn every_binding_names_a_role_and_an_account_that_are_there() {
    for mode in MODES {
        let manifests = Release::new().set(mode).render().await;
        let bindings = [manifests.of("RoleBinding"), manifests.of("ClusterRoleBinding")].concat();
        assert!(bindings.len() > 4);
        for binding in bindings {
            let role = &binding["roleRef"];
            let roles = manifests.of(role["kind"].as_str().unwrap());
            let has_role = |candidate: &&Value| {
                name(candidate) == role["name"]
                    && candidate["metadata"].get("namespace") == binding["metadata"].get("namespace")
            };
            assert!(roles.iter().any(has_role), "{binding}");
            let account = &binding["subjects"][0]["name"];
            assert!(
                manifests.of("ServiceAccount").iter().any(|candidate| name(candidate) == account),
                "{binding}"
            );
        }
    }
}

#[tokio::test]
async fn the_webhook_has_no_rights_and_no_token() {
    let manifests = Release::new().render().await;
    let webhook = name(manifests.one("ServiceAccount", "-webhook"));
    let bindings = [manifests.of("RoleBinding"), manifests.of("ClusterRoleBinding")].concat();
    assert!(bindings.iter().all(|binding| binding["subjects"][0]["name"] != webhook));
    let pod = &manifests.one("Deployment", "-webhook")["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
        (&webhook.into(), &false.into())
    );
}
