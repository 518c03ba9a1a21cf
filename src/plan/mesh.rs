//! Several cards that train one network, each on its share of every batch.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Event;

/// One update of one card by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// [s]
    pub seconds: f64,
    /// What it asks of others, in order.
    pub events: Vec<Event>,
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
    #[serde(rename = "wire_bytes")]
    pub wire: f64,
    /// Held by each card [bytes].
    pub memory: f64,
    /// Of what as many cards would do that need not wait for each other.
    pub efficiency: f64,
}

/// Lets `ranks` cards do what `update` says, each on `samples / ranks` samples. What they exchange takes the wire in order; a
/// card goes on meanwhile where it need not wait. `alone` is what one card takes for a sample [s].
pub fn predict(update: &Update, ranks: usize, samples: usize, links: &Links, alone: f64) -> Prediction {
    // When the wire is free, and how much later than by itself the card is.
    let (mut free, mut waiting, mut wire) = (0.0_f64, 0.0_f64, 0.0);
    // When what was asked for on each lane is done.
    let mut done = BTreeMap::new();
    for event in &update.events {
        match *event {
            Event::Transfer { at, sent, steps, lane, span } => {
                let rate = if span > links.cards_per_node { links.across } else { links.within };
                free = free.max(at + waiting) + sent / rate + steps * links.latency;
                wire += sent;
                match lane {
                    None => waiting = free - at,
                    Some(lane) => _ = done.insert(lane, free),
                }
            }
            Event::Join { at, lane: None } => waiting = waiting.max(free - at),
            Event::Join { at, lane: Some(lane) } => {
                waiting = done.get(&lane).map_or(waiting, |done| waiting.max(done - at));
            }
        }
    }
    let seconds = update.seconds + waiting;
    let efficiency = alone * samples as f64 / (ranks as f64 * seconds);
    Prediction { ranks, samples, seconds, waiting, wire, memory: update.memory, efficiency }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: Links = Links { within: 100.0, across: 10.0, cards_per_node: 4, latency: 0.0 };

    fn join(at: f64) -> Event {
        Event::Join { at, lane: None }
    }

    /// Two halves of the gradients, and an update of 2 s.
    fn update(sent: f64, span: usize) -> Update {
        let half = |at| Event::Transfer { at, sent, steps: 1.0, lane: Some(0), span };
        Update { seconds: 10.0, events: vec![half(6.0), half(8.0), join(8.0)], memory: 1.0 }
    }

    #[test]
    fn one_card_waits_for_nobody() {
        let update = Update { events: vec![join(8.0)], ..update(0.0, 1) };
        let alone = predict(&update, 1, 16, &LINKS, 10.0 / 16.0);
        assert_eq!((alone.seconds, alone.waiting, alone.wire, alone.efficiency), (10.0, 0.0, 0.0, 1.0));
    }

    #[test]
    fn the_first_half_travels_while_the_second_is_made() {
        // Each half takes 1 s: the first is there at 7 s, the second at 9 s.
        let two = predict(&update(100.0, 2), 2, 32, &LINKS, 10.0 / 16.0);
        assert_eq!((two.waiting, two.seconds, two.wire), (1.0, 11.0, 200.0));
        assert!((two.efficiency - 10.0 / 11.0).abs() < 1e-15);
    }

    #[test]
    fn shared_weights_come_back_after_the_update() {
        // 1 s more, when all is done.
        let mut shared = update(100.0, 2);
        shared.events.push(Event::Transfer { at: 10.0, sent: 100.0, steps: 1.0, lane: None, span: 2 });
        let two = predict(&shared, 2, 32, &LINKS, 10.0 / 16.0);
        assert_eq!((two.waiting, two.wire), (2.0, 300.0));
    }

    #[test]
    fn nodes_are_joined_by_slower_links() {
        // 17.5 s each, from 6 s on: 41 s, where the backward pass was done at 8 s.
        let eight = predict(&update(175.0, 8), 8, 128, &LINKS, 10.0 / 16.0);
        assert_eq!(eight.waiting, 33.0);
    }

    #[test]
    fn groups_within_a_node_are_fast_in_large_meshes_too() {
        let eight = predict(&update(175.0, 4), 8, 128, &LINKS, 10.0 / 16.0);
        // 1.75 s each.
        assert_eq!(eight.waiting, 1.75);
    }

    #[test]
    fn who_waits_for_weights_is_late_with_all_that_follows() {
        let bring = |at| Event::Transfer { at, sent: 100.0, steps: 1.0, lane: None, span: 2 };
        let events = vec![bring(0.0), bring(1.0), join(8.0)];
        let late = Update { events, ..update(0.0, 1) };
        assert_eq!(predict(&late, 2, 32, &LINKS, 1.0).waiting, 2.0);
    }

    #[test]
    fn who_goes_on_meanwhile_is_late_only_where_it_joins_too_early() {
        // 1 s on one lane from 0 s on, then 2 s on another; the second is asked for before it is there.
        let bring = |lane, sent| Event::Transfer { at: 0.0, sent, steps: 1.0, lane: Some(lane), span: 2 };
        let join_of = |at, lane| Event::Join { at, lane: Some(lane) };
        let events =
            vec![bring(1, 100.0), bring(2, 200.0), join_of(1.5, 1), join_of(2.0, 2), join_of(2.0, 3)];
        let late = Update { events, ..update(0.0, 1) };
        assert_eq!(predict(&late, 2, 32, &LINKS, 1.0).waiting, 1.0);
    }
}
