//! The defaults, in one place. The schema, the webhook's patch and the controller's guard all read them here.

/// `spec.replicas` where it is not given.
pub const REPLICAS: i32 = 1;
/// `spec.tier` where it is not given.
pub const TIER: &str = "dev";
