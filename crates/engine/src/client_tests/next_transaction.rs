//! Several clients of one worker in a run with phases, woken by hand.

use super::*;
use crate::clock::{Nanos, SECOND};
use crate::phases::{PhaseSpec, Phases, Ramp};
use crate::schedule::Spacing;

const HOUR: u64 = 3600;

fn phase(seconds: u64, rate_per_s: Option<f64>, clients: f64, weights: &[u32]) -> PhaseSpec {
    let phase = crate::phases::tests::phase(seconds as f64, (0.0, 0.0), (clients, clients));
    PhaseSpec { rate_per_s: rate_per_s.map(Ramp::constant), weights: weights.to_vec(), ..phase }
}

fn phased(phases: Vec<PhaseSpec>) -> Spec {
    phased_for(2, phases)
}

fn phased_for(clients: usize, phases: Vec<PhaseSpec>) -> Spec {
    let phases = Phases::new(phases);
    let arrivals = if phases.is_open() { Arrivals::Phased(Spacing::Regular) } else { Arrivals::Closed };
    let limit = Limit::Duration(Duration::from_nanos(phases.end()));
    let mut spec = spec("SELECT 1;\n", QueryMode::Simple, limit, Tries::AtMost(1), arrivals);
    let other = super::spec("SELECT 2;\n", QueryMode::Simple, limit, Tries::AtMost(1), arrivals);
    spec.programs.extend(other.programs);
    spec.clients = clients;
    (spec.seeds, _) = Seeds::draw(&mut Rng::seed(1), clients, 1, false);
    spec.phases = Some(phases);
    spec
}

struct Crowd<'a> {
    clients: Vec<Client>,
    shared: Shared<'a>,
    origin: Nanos,
}

impl<'a> Crowd<'a> {
    fn new(spec: &'a Spec, templates: &'a [Vec<Template>], stop: &'a AtomicBool) -> Self {
        let mut shared = shared(spec, templates, stop);
        let origin = shared.clock.now();
        shared.starts.schedule.begin(origin);
        shared.run.deadline = spec.phases.as_ref().map(|phases| origin + phases.end());
        if let Some(phase_state) = &mut shared.starts.phase_state {
            phase_state.begin(origin);
        }
        let mut crowd =
            Self { clients: (0..spec.clients).map(|id| Client::new(id, &shared)).collect(), shared, origin };
        for client in &mut crowd.clients {
            client.begin(origin, &mut crowd.shared);
        }
        crowd
    }

    fn wake(&mut self, after: Nanos) -> Vec<usize> {
        let now = self.origin + after;
        let mut sending = vec![];
        while let Some(client) = self.shared.requests.due(now) {
            if self.clients[client].wake(now, &mut self.shared) == Next::Send {
                sending.push(client);
            }
        }
        sending
    }

    fn succeeded(&self) -> Vec<u64> {
        let records = &self.shared.results.recorder.scripts;
        records.iter().map(|each| each.counts.succeeded).collect()
    }
}

macro_rules! crowd {
    ($crowd:ident, $spec:expr) => {
        let spec = $spec;
        let all = templates(&spec.programs, spec.mode).expect("short statements");
        let stop = AtomicBool::new(false);
        let mut $crowd = Crowd::new(&spec, &all, &stop);
    };
}

#[test]
fn a_client_that_is_not_in_use_rests_until_its_phase_comes() {
    crowd!(crowd, phased(vec![phase(HOUR, None, 1.0, &[1, 0]), phase(HOUR, None, 2.0, &[0, 1])]));
    assert!(crowd.clients[0].in_flight() && !crowd.clients[1].in_flight());
    assert_eq!(crowd.wake(HOUR * SECOND - 1), [0; 0]);
    assert_eq!(crowd.wake(HOUR * SECOND), [1]);
    assert!(String::from_utf8_lossy(crowd.clients[1].outgoing()).contains("SELECT 2"), "the second phase's script");
    crowd.clients[1].receive(READY, &mut crowd.shared);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    assert_eq!(crowd.succeeded(), [1, 0, 0, 1], "each in the phase of its start");
}

#[test]
fn a_start_goes_to_a_client_that_is_in_use_when_it_comes() {
    // starts at 0, 1000 s, 2000 s and 3000 s; then one client only, with starts at 3600 s and 4600 s
    crowd!(crowd, phased(vec![phase(HOUR, Some(0.001), 2.0, &[1, 0]), phase(HOUR, Some(0.001), 1.0, &[0, 1])]));
    assert!(crowd.clients[0].in_flight(), "the first start is at once");
    // the second client takes its turn: it waits for 1000 s
    assert_eq!(crowd.wake(SECOND), [0; 0]);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    assert!(!crowd.clients[0].in_flight(), "it stands by");
    assert_eq!(crowd.wake(1000 * SECOND), [1]);
    // the first one waits for 2000 s, and the second stands by
    crowd.clients[1].receive(READY, &mut crowd.shared);
    assert_eq!(crowd.wake(2000 * SECOND), [0]);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    assert_eq!(crowd.wake(3000 * SECOND), [1]);
    crowd.clients[1].receive(READY, &mut crowd.shared);
    // the start number 3.6 of the integral is number 4, in the second phase: the first client's turn
    assert_eq!(crowd.wake(3999 * SECOND), [0; 0]);
    assert_eq!(crowd.wake(4000 * SECOND), [0]);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    // the second client's turn comes in a phase that does not use it, so the first one takes the start
    assert_eq!(crowd.wake(5000 * SECOND), [0]);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    assert_eq!(crowd.succeeded(), [4, 0, 0, 2]);
}

#[test]
fn a_client_that_gives_up_leaves_its_turn_and_starts_that_found_nobody_are_told() {
    crowd!(crowd, phased(vec![phase(HOUR, Some(0.001), 2.0, &[1, 1])]));
    crowd.wake(SECOND);
    crowd.clients[0].receive(READY, &mut crowd.shared);
    // the second client waits for the next start, the first stands by
    crowd.clients[1].handle_close(None, &mut crowd.shared);
    assert!(crowd.clients[1].has_aborted());
    crowd.wake(SECOND);
    assert_eq!(crowd.wake(1000 * SECOND), [0]);
    assert_eq!(crowd.shared.results.recorder.scripts[0].counts.aborted, 0);
    // starts that found nobody are told by phase
    crowd!(crowd, phased(vec![phase(1, Some(3.0), 2.0, &[1, 0]), phase(1, Some(4.0), 2.0, &[0, 1])]));
    // both clients are busy until after the end
    crowd.wake(SECOND / 2);
    assert!(crowd.clients.iter().all(Client::in_flight));
    assert_eq!(crowd.shared.starts.schedule.overdue_by_phase(crowd.origin + 2 * SECOND), [1, 4]);
}

#[test]
fn a_last_phase_that_is_a_pause_lasts_to_its_end() {
    crowd!(crowd, phased(vec![phase(1, Some(1.0), 2.0, &[1, 1]), phase(HOUR, Some(0.0), 2.0, &[1, 1])]));
    crowd.clients[0].receive(READY, &mut crowd.shared);
    crowd.wake(2 * SECOND);
    assert!(!crowd.clients.iter().any(Client::is_stopped));
    crowd.wake((HOUR + 1) * SECOND);
    assert!(crowd.clients.iter().all(Client::is_stopped));
    // everybody who stands by hears of the end
    crowd!(crowd, phased_for(4, vec![phase(1, Some(2.0), 4.0, &[1, 1])]));
    // the second one's start comes; of the two that stand by, one is to be woken
    let half = crowd.origin + SECOND / 2;
    assert_eq!(crowd.shared.requests.due(half), Some(1));
    assert_eq!(crowd.clients[1].wake(half, &mut crowd.shared), Next::Send);
    // the run is over by then
    crowd.wake(2 * SECOND);
    assert!(crowd.clients[2].is_stopped() && crowd.clients[3].is_stopped());
}

#[test]
fn sleepers_are_woken_on_the_grid() {
    bench!(bench, Spec { timer_tick: Duration::from_millis(1), ..select() });
    let ms = SECOND / 1000;
    for (asked, woken) in [(1, ms), (ms, ms), (ms + 1, 2 * ms), (5 * ms - 1, 5 * ms)] {
        bench.shared.requests.sleep_until(asked, 0);
        assert_eq!(bench.shared.requests.next_timer(), Some(woken));
        assert_eq!(bench.shared.requests.due(woken - 1), None);
        assert_eq!(bench.shared.requests.due(woken), Some(0));
    }
    // a client that only lets others run does not wait
    bench.shared.requests.wake_at(7, 0);
    assert_eq!(bench.shared.requests.next_timer(), Some(7));
}
