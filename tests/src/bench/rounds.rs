//! Programs take turns, so that whatever else the machine does hits them alike.

use anyhow::Result;

use super::samples::Samples;

/// How often each program has its turn.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    count: usize,
}

impl Rounds {
    /// So many rounds, of which the first is not counted: caches and clocks are cold.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self { count }
    }

    /// Measures each of `arms` once a round, in turns that are mirrored from round to round (A B, B A, A B, …), so that
    /// a drift of the machine favours neither. Gives the samples of each arm, of the same round at the same place.
    pub async fn run<A, const N: usize>(
        self,
        arms: [A; N],
        mut measure: impl AsyncFnMut(&A) -> Result<f64>,
    ) -> Result<[Samples; N]> {
        let mut samples = [const { Vec::new() }; N];
        for round in 0..self.count {
            for turn in 0..N {
                let arm = if round % 2 == 0 { turn } else { N - 1 - turn };
                let value = measure(&arms[arm]).await?;
                if round > 0 {
                    samples[arm].push(value);
                }
            }
        }
        Ok(samples.map(|values| values.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_are_mirrored_and_the_first_round_is_not_counted() {
        let mut order = String::new();
        let mut clock = 0.0;
        let [a, b] = Rounds::new(3)
            .run(['A', 'B'], async |arm| {
                order.push(*arm);
                clock += 1.0;
                Ok(clock)
            })
            .await
            .unwrap();
        assert_eq!(order, "ABBAAB");
        assert_eq!((a, b), ([4.0, 5.0].into_iter().collect(), [3.0, 6.0].into_iter().collect()));
    }

    #[tokio::test]
    async fn the_first_failure_ends_it() {
        let mut turns = 0;
        let result = Rounds::new(3)
            .run(['A', 'B'], async |_| {
                turns += 1;
                anyhow::bail!("refused")
            })
            .await;
        assert!(result.is_err());
        assert_eq!(turns, 1);
    }
}
