//! Several cards that train one network, each on its share of every batch.

use serde::Serialize;

/// One update of one card by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// [s]
    pub seconds: f64,
    /// When stretches of the gradients are complete [s], and their sizes [bytes], in order.
    pub stretches: Vec<(f64, f64)>,
    /// Weights that are gathered from those who updated them [bytes].
    pub gathered: f64,
    /// What each card holds [bytes].
    pub memory: f64,
}

/// How cards are joined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Links {
    /// Bytes a second that an all-reduce moves through every card, inside of a node and between nodes.
    pub within: f64,
    pub across: f64,
    pub cards_per_node: usize,
    /// Of one exchange with a neighbour [s].
    pub latency: f64,
}

/// An update of `ranks` cards together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    pub ranks: usize,
    pub samples: usize,
    /// [s]
    pub seconds: f64,
    /// Of that, waiting for other cards.
    pub waiting: f64,
    /// Sent by each card [bytes].
    pub wire: f64,
    /// Held by each card [bytes].
    pub memory: f64,
    /// Of what as many cards would do that need not wait for each other.
    pub efficiency: f64,
}

/// Lets `ranks` cards do what `update` says, each on `samples / ranks` samples, and exchange gradients around a ring
/// (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002), each stretch as soon as it is complete and the wire is free.
/// `alone` is what one card takes for a sample [s].
pub fn predict(update: &Update, ranks: usize, samples: usize, links: &Links, alone: f64) -> Prediction {
    let others = ranks as f64 - 1.0;
    let rate = if ranks > links.cards_per_node { links.across } else { links.within };
    let mut free = 0.0_f64;
    let mut wire = 0.0;
    for &(complete, bytes) in &update.stretches {
        let sent = 2.0 * others / ranks as f64 * bytes;
        let takes = if ranks > 1 { sent / rate + 2.0 * others * links.latency } else { 0.0 };
        free = free.max(complete) + takes;
        wire += sent;
    }
    // The optimiser needs all of them.
    let last = update.stretches.last().map_or(0.0, |&(complete, _)| complete);
    let mut waiting = (free - last).max(0.0);
    if ranks > 1 && update.gathered > 0.0 {
        let sent = others / ranks as f64 * update.gathered;
        waiting += sent / rate + others * links.latency;
        wire += sent;
    }
    let seconds = update.seconds + waiting;
    let efficiency = alone * samples as f64 / (ranks as f64 * seconds);
    Prediction { ranks, samples, seconds, waiting, wire, memory: update.memory, efficiency }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: Links = Links { within: 100.0, across: 10.0, cards_per_node: 4, latency: 0.0 };

    fn update() -> Update {
        Update { seconds: 10.0, stretches: vec![(6.0, 100.0), (8.0, 100.0)], gathered: 0.0, memory: 1.0 }
    }

    #[test]
    fn one_card_waits_for_nobody() {
        let alone = predict(&update(), 1, 16, &LINKS, 10.0 / 16.0);
        assert_eq!((alone.seconds, alone.waiting, alone.wire, alone.efficiency), (10.0, 0.0, 0.0, 1.0));
    }

    #[test]
    fn the_first_stretch_travels_while_the_second_is_made() {
        // Each stretch takes 2 x 1/2 x 100 / 100 = 1 s: the first is there at 7 s, the second at 9 s.
        let two = predict(&update(), 2, 32, &LINKS, 10.0 / 16.0);
        assert_eq!((two.waiting, two.seconds, two.wire), (1.0, 11.0, 200.0));
        assert!((two.efficiency - 10.0 / 11.0).abs() < 1e-15);
    }

    #[test]
    fn shared_weights_come_back_after_the_update() {
        // 1/2 x 200 / 100 = 1 s more.
        let two = predict(&Update { gathered: 200.0, ..update() }, 2, 32, &LINKS, 10.0 / 16.0);
        assert_eq!((two.waiting, two.wire), (2.0, 300.0));
    }

    #[test]
    fn nodes_are_joined_by_slower_links() {
        // 2 x 7/8 x 100 / 10 = 17.5 s each, from 6 s on: 41 s, where the backward pass was done at 8 s.
        let eight = predict(&update(), 8, 128, &LINKS, 10.0 / 16.0);
        assert_eq!(eight.waiting, 33.0);
    }
}
