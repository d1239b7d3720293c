//! The rule table: one line per rule, small functions behind it.
//!
//! The same table serves the webhook, the controller, the plugin and the reference page. A *structural* rule says what an
//! object needs to be reconciled at all: every enforcer checks it. A *policy* rule is a wish of whoever runs the cluster,
//! who says in a [`Policy`] how much it weighs and where the limits are: admission and the plugin speak of it, the
//! controller does not, so that a rule tightened later never breaks an object that was accepted before.

mod check;
pub mod example;
mod image;
mod limits;
mod names;
mod policy;
mod registry;
mod spec;
mod table;

pub use check::{check, check_structure};
pub use policy::{Policy, PolicyError};
pub use table::RULES;

use self::image::Image;
use crate::draft::Draft;

/// What a rule is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Without it the object cannot be reconciled.
    Structural,
    /// Advice or restriction, for admission and the plugin only.
    Policy,
}

/// What happens when a rule is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Nothing.
    Off,
    /// The object is accepted, and the person is told.
    Warn,
    /// The object is refused.
    Enforce,
}

impl Level {
    /// From the lightest to the heaviest.
    pub const ALL: [Self; 3] = [Self::Off, Self::Warn, Self::Enforce];

    /// The word in a policy.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Warn => "warn",
            Self::Enforce => "enforce",
        }
    }
}

/// The machine-readable cause of a refusal, as `metav1.StatusCause` names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    /// A required value is missing.
    Required,
    /// The value has the wrong form or type.
    Invalid,
    /// A value that must be unique stands twice.
    Duplicate,
    /// Too many entries or too long.
    TooLong,
    /// The value is well formed, and the policy does not allow it.
    Forbidden,
}

impl Cause {
    /// The word in a Status object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// One line of the table.
pub struct Rule {
    /// Stable name of the rule, in logs, metrics and the reference.
    pub id: &'static str,
    /// The field it speaks about.
    pub field: &'static str,
    /// Structural or policy.
    pub kind: Kind,
    /// What happens when it is broken, unless a policy says otherwise.
    pub level: Level,
    /// What it demands, one sentence.
    pub demands: &'static str,
    /// Why, one sentence.
    pub why: &'static str,
    /// A value that breaks it, as JSON of the field, in the object and under the policy of [`example`].
    pub broken_by: &'static str,
    check: fn(&Draft<'_>, &mut Findings<'_>),
}

/// A broken rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// [`Rule::id`].
    pub rule: &'static str,
    /// Path of the offending value, such as `spec.dependsOn[2].name`.
    pub field: String,
    /// What is wrong and what to write instead.
    pub message: String,
    /// The machine-readable cause.
    pub cause: Cause,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// What the rules found in one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Broken rules of level [`Level::Enforce`], in the order of the table.
    pub violations: Vec<Violation>,
    /// Broken rules of level [`Level::Warn`].
    pub warnings: Vec<Violation>,
}

/// All violations in one sentence for a person.
#[must_use]
pub fn sentence(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What a rule's function is given beside the object: the policy, the image, and where it puts what it finds.
struct Findings<'r> {
    rule: &'static Rule,
    policy: &'r Policy,
    image: Image<'r>,
    into: &'r mut Vec<Violation>,
}

impl Findings<'_> {
    /// The rule's own field breaks it.
    fn add(&mut self, cause: Cause, message: impl Into<String>) {
        self.add_at(self.rule.field, cause, message);
    }

    /// A value below the rule's field breaks it.
    fn add_at(&mut self, field: impl Into<String>, cause: Cause, message: impl Into<String>) {
        self.into.push(Violation { rule: self.rule.id, field: field.into(), message: message.into(), cause });
    }
}
