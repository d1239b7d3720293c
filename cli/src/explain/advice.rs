//! What a person can do about it, as commands where there is one.

use webservice_api::conditions::Reason;
use webservice_api::constants::{FINALIZER, ORPHAN_FINALIZER};
use webservice_controller::decide::Action;

use super::Case;

impl Case<'_> {
    /// What to do, in the order in which to try it; nothing where all is well.
    pub(super) fn next(&self) -> Vec<String> {
        let mut next = match (&self.decision.action, self.decision.word) {
            (Action::Noop, Reason::Suspended) => vec![self.resume()],
            (Action::Noop, Reason::Deleting) => vec![self.ask_the_others()],
            (_, Reason::DependencyNotReady) => self.look_at_dependencies(),
            (_, Reason::DependencyCycle) => vec![format!(
                "Take one of the entries out of spec.dependsOn: {}",
                self.kubectl("edit webservice")
            )],
            (_, Reason::InvalidSpec) => vec![format!("Mend the spec: {}", self.kubectl("edit webservice"))],
            (_, Reason::ChildConflict) => {
                vec![format!(
                    "See whose the ConfigMap is: {}",
                    self.kubectl_child("-o yaml --show-managed-fields")
                )]
            }
            (Action::Requeue { .. }, Reason::Deleting) if self.owner().has_finalizer(ORPHAN_FINALIZER) => {
                vec!["See whether kube-controller-manager runs: releasing the child is its part.".to_owned()]
            }
            (Action::Requeue { .. }, Reason::Deleting | Reason::ChildTerminating) => {
                let finalizers = self.kubectl_child("-o jsonpath='{.metadata.finalizers}'");
                vec![format!("See what holds the ConfigMap: {finalizers}")]
            }
            _ => Vec::new(),
        };
        if self.has_failed() {
            next.push("Settle what the API server answers; the controller tries again by itself.".to_owned());
        } else if !self.decision.action.rests() || !self.is_reported {
            next.extend(self.look_at_the_controller());
        }
        next
    }

    /// Whether the controller reports that its requests fail.
    fn has_failed(&self) -> bool {
        let failures = [Reason::Forbidden, Reason::ApiError].map(Reason::as_str);
        self.owner().status.conditions.iter().any(|condition| failures.contains(&condition.reason.as_str()))
    }

    fn look_at_the_controller(&self) -> [String; 2] {
        let namespace = self.seen.key.namespace();
        [
            format!(
                "If this is but a moment old, ask again; otherwise see whether the controller runs and serves namespace {namespace}."
            ),
            format!("Or make its pass yourself: {}", self.kubectl("webservice reconcile")),
        ]
    }

    fn look_at_dependencies(&self) -> Vec<String> {
        let namespace = self.seen.key.namespace();
        let advice = |(name, found): &(&str, Option<_>)| match found {
            Some(_) => format!("Look at what it waits for: kubectl webservice explain {name} -n {namespace}"),
            None => format!("Create WebService {name}, or take it out of spec.dependsOn."),
        };
        self.unready.iter().map(advice).collect()
    }

    fn resume(&self) -> String {
        let patch = r#"--type=merge -p '{"spec":{"suspend":false}}'"#;
        format!("Let it go on: {} {patch}", self.kubectl("patch webservice"))
    }

    fn ask_the_others(&self) -> String {
        let others = self.owner().finalizers.iter().filter(|finalizer| ***finalizer != *FINALIZER);
        let others: Vec<_> = others.map(AsRef::as_ref).collect();
        format!("Our part is done; ask whoever set the other finalizers: {}", others.join(", "))
    }

    fn kubectl(&self, verb: &str) -> String {
        format!("kubectl {verb} {} -n {}", self.seen.key.name(), self.seen.key.namespace())
    }

    fn kubectl_child(&self, how: &str) -> String {
        format!("kubectl get configmap {} -n {} {how}", self.seen.child_name(), self.seen.key.namespace())
    }
}
