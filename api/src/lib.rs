//! What a `WebService` is: types, names, defaults, rules, conditions and the child that is made from it.
//!
//! Everything in this crate is pure: no client, no clock, no runtime. The webhook, the controller and the kubectl
//! plugin call the same functions, so what one of them says the others say too.
//!
//! ```text
//!  JSON as written ──► draft ──► rules ──► violations, warnings        (webhook, controller, plugin)
//!                        │
//!                        └─────► admission::mutate ──► JSON patch      (webhook)
//!  stored object ────► resource ──► child (desired ConfigMap)          (controller, plugin)
//!                                └► conditions (status)
//! ```

pub mod admission;
pub mod child;
pub mod conditions;
pub mod constants;
pub mod crd;
pub mod defaults;
pub mod draft;
pub mod image;
pub mod rbac;
pub mod registration;
pub mod resource;
pub mod rules;

pub use resource::{WebService, WebServiceSpec, WebServiceStatus};
