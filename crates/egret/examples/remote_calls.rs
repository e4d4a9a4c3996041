//! An object that another node calls: export, look up, call.
//!
//! Both nodes are in this process; under `egret run` each would be a process of its own, and
//! nothing else would change.

use egret::prelude::*;

/// What others can do with the scores.
#[egret::remote]
trait Scores {
    /// Adds what a player has won. The list is read where it arrived.
    fn add(&mut self, player: &str, won: &[u32]) -> u32;
    /// The player with the most, if there is one.
    fn best(&self) -> Option<String>;
}

#[derive(Default)]
struct Board {
    totals: std::collections::BTreeMap<String, u32>,
}

#[egret::remote]
impl Scores for Board {
    fn add(&mut self, player: &str, won: &[u32]) -> u32 {
        let total = self.totals.entry(player.to_owned()).or_default();
        *total += won.iter().sum::<u32>();
        *total
    }

    fn best(&self) -> Option<String> {
        self.totals.iter().max_by_key(|(_, total)| **total).map(|(player, _)| player.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = egret::local::pool(2)?;
    let (here, there) = (&pool[0], &pool[1]);

    let exported = there.export(Board::default())?;
    exported.bind("scores")?;

    let scores: ScoresStub = here.lookup("scores", Deadline::DEFAULT)?;
    assert_eq!(scores.add("ada", &[3, 4])?, 7);
    // Both are under way at the same time.
    let (ben, ada) =
        (scores.begin().add("ben".into(), vec![9]), scores.begin().add("ada".into(), vec![1]));
    assert_eq!((ben.wait()?, ada.wait()?), (9, 8));
    assert_eq!(scores.best()?.as_deref(), Some("ben"));

    drop(exported);
    assert!(matches!(scores.best(), Err(CallError::UnknownObject { .. })));
    Ok(())
}
