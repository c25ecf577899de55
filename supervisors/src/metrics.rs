//! Every metric of the product: name and help together, counted by processes and shells alike.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use crate::address::Class;
use crate::event::{Kind, Reason};

/// Seconds: from a hot actor's answer to an event at its wall.
const EVENT_SECONDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

pub struct Metrics {
    pub registry: Registry,
    events: IntCounterVec,
    event_seconds: HistogramVec,
    refusals: IntCounterVec,
    pub residents: IntGauge,
    pub wakes: IntCounter,
    pub hibernations: IntCounterVec,
    pub admission_wait_seconds: Histogram,
    pub process_exits: IntCounterVec,
    pub guest_log_lines: IntCounter,
    pub guest_log_lines_dropped: IntCounter,
    pub alarms_put_off: IntCounter,
    pub alarm_lateness_seconds: Histogram,
    pub tail_listeners: IntGauge,
    pub tail_records_lost: IntCounter,
    calls: IntCounterVec,
    call_seconds: Histogram,
    outbound_requests: IntCounterVec,
    pub outbound_open: IntGauge,
}

/// The counters of one class, looked up once so that an event costs no map access.
#[derive(Clone)]
pub struct ClassMetrics([KindMetrics; Kind::ALL.len()]);

impl ClassMetrics {
    pub fn of(&self, kind: Kind) -> &KindMetrics {
        &self.0[kind as usize]
    }
}

/// The counters of one class's events of one kind.
#[derive(Clone)]
pub struct KindMetrics {
    pub answered: IntCounter,
    pub failed: IntCounter,
    pub skipped: IntCounter,
    pub seconds: Histogram,
}

impl Metrics {
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let metric = IntCounter::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let counters = |name: &str, help: &str, label: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), label)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let residents = IntGauge::new("wasmkeep_resident_actors", "Actors in memory now")?;
        registry.register(Box::new(residents.clone()))?;
        let tail_listeners =
            IntGauge::new("wasmkeep_tail_listeners", "Operators that follow events now")?;
        registry.register(Box::new(tail_listeners.clone()))?;
        let event_seconds = HistogramVec::new(
            HistogramOpts::new(
                "wasmkeep_event_seconds",
                "Time from the start of an event in its actor to its end",
            )
            .buckets(EVENT_SECONDS.to_vec()),
            &["class", "kind"],
        )?;
        registry.register(Box::new(event_seconds.clone()))?;
        let admission_wait_seconds = Histogram::with_opts(
            HistogramOpts::new(
                "wasmkeep_admission_wait_seconds",
                "Time events waited for resident capacity",
            )
            .buckets(vec![0.001, 0.005, 0.01, 0.05, 0.1, 0.25]),
        )?;
        registry.register(Box::new(admission_wait_seconds.clone()))?;
        let alarm_lateness_seconds = Histogram::with_opts(
            HistogramOpts::new(
                "wasmkeep_alarm_lateness_seconds",
                "Time from when an alarm was due to the start of its handler",
            )
            .buckets(EVENT_SECONDS.to_vec()),
        )?;
        registry.register(Box::new(alarm_lateness_seconds.clone()))?;
        let call_seconds = Histogram::with_opts(
            HistogramOpts::new(
                "wasmkeep_call_seconds",
                "Time a call between actors took, as its caller saw it",
            )
            .buckets(EVENT_SECONDS.to_vec()),
        )?;
        registry.register(Box::new(call_seconds.clone()))?;
        let outbound_open =
            IntGauge::new("wasmkeep_outbound_open_requests", "Outbound requests open now")?;
        registry.register(Box::new(outbound_open.clone()))?;
        Ok(Self {
            alarms_put_off: counter(
                "wasmkeep_alarms_put_off_total",
                "Due alarms that could not run and were put off by the timer",
            )?,
            tail_listeners,
            tail_records_lost: counter(
                "wasmkeep_tail_records_lost_total",
                "Records that operators who follow events were too slow for",
            )?,
            alarm_lateness_seconds,
            calls: counters(
                "wasmkeep_calls_total",
                "Calls between actors by how they ended: answered, timeout, reentrant, \
                 invalid-address, failed",
                &["outcome"],
            )?,
            call_seconds,
            events: counters(
                "wasmkeep_events_total",
                "Events by class, kind and how they ended: answered, failed, skipped",
                &["class", "kind", "outcome"],
            )?,
            event_seconds,
            refusals: counters(
                "wasmkeep_refusals_total",
                "Answers the host made itself, by reason",
                &["reason"],
            )?,
            residents,
            wakes: counter("wasmkeep_wakes_total", "Actors made resident")?,
            hibernations: counters(
                "wasmkeep_hibernations_total",
                "Actors hibernated, by cause: idle, evicted",
                &["cause"],
            )?,
            admission_wait_seconds,
            process_exits: counters(
                "wasmkeep_process_exits_total",
                "Supervised processes that ended abnormally, by kind and cause",
                &["process", "cause"],
            )?,
            guest_log_lines: counter("wasmkeep_guest_log_lines_total", "Lines guests logged")?,
            guest_log_lines_dropped: counter(
                "wasmkeep_guest_log_lines_dropped_total",
                "Lines guests logged beyond the rate limit",
            )?,
            outbound_requests: counters(
                "wasmkeep_outbound_requests_total",
                "Outbound requests by how they ended: answered, denied, failed, limited",
                &["outcome"],
            )?,
            outbound_open,
            registry,
        })
    }

    pub fn class(&self, class: &Class) -> ClassMetrics {
        ClassMetrics(Kind::ALL.map(|kind| {
            let labels = [class.as_str(), kind.as_str()];
            let outcome =
                |outcome: &str| self.events.with_label_values(&[labels[0], labels[1], outcome]);
            KindMetrics {
                answered: outcome("answered"),
                failed: outcome("failed"),
                skipped: outcome("skipped"),
                seconds: self.event_seconds.with_label_values(&labels),
            }
        }))
    }

    /// Counts an outbound request: `answered`, `denied`, `failed` or `limited`.
    pub fn outbound(&self, outcome: &str) {
        self.outbound_requests.with_label_values(&[outcome]).inc();
    }

    pub fn refused(&self, reason: Reason) {
        self.refusals.with_label_values(&[reason.as_str()]).inc();
    }

    pub fn called(&self, outcome: &str, took: Duration) {
        self.calls.with_label_values(&[outcome]).inc();
        self.call_seconds.observe(took.as_secs_f64());
    }
}
