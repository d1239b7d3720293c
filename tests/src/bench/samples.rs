//! Repeated measurements of one thing.

use serde::Serialize;

/// Measurements in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Samples(Vec<f64>);

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Samples {
    /// The value below which the given part (0 to 1) of the samples lies, interpolated between the two nearest. Of
    /// nothing it is NaN, which is on the wrong side of every line.
    #[must_use]
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "a bench takes fewer than 2^52 samples")]
        let position = part.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is an index")]
        let at = |position: f64| sorted.get(position as usize).copied().unwrap_or(f64::NAN);
        let (below, above) = (at(position.floor()), at(position.ceil()));
        below + (above - below) * position.fract()
    }

    /// The middle one.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// What the samples are divided by their partners of the same round.
    #[must_use]
    pub fn ratios(&self, others: &Self) -> Self {
        self.0.iter().zip(&others.0).map(|(ours, other)| ours / other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-9
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let samples = samples(&[4.0, 1.0, 3.0, 2.0]);
        assert!(close(samples.quantile(0.0), 1.0) && close(samples.quantile(1.0), 4.0));
        assert!(close(samples.median(), 2.5));
        assert!(close(samples.quantile(0.25), 1.75));
    }

    #[test]
    fn nothing_has_no_median() {
        assert!(samples(&[]).median().is_nan());
    }

    #[test]
    fn a_ratio_is_one_within_a_round() {
        assert_eq!(samples(&[1.0, 6.0]).ratios(&samples(&[2.0, 3.0])), samples(&[0.5, 2.0]));
    }
}
