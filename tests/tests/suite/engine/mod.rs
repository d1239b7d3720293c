//! The engine as a whole: never two who write, and as many objects as there may be.

mod many;
mod throttled;
mod two_writers;
