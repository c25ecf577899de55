//! Every metric of the product, counted by processes and shells alike. What each means stands in
//! `table`.

mod table;

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Error, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry,
};

use self::table::{Form, ROWS, Row};
use crate::address::Class;
use crate::event::{Kind, Reason};

pub struct Metrics {
    pub registry: Registry,
    events: IntCounterVec,
    event_seconds: HistogramVec,
    refusals: IntCounterVec,
    pub residents: IntGauge,
    pub wakes: IntCounter,
    pub rests: IntCounter,
    pub hibernations: IntCounterVec,
    pub admission_wait_seconds: Histogram,
    pub durable_write_seconds: Histogram,
    deletes: IntCounterVec,
    delete_failures: IntCounterVec,
    pub alarm_lateness_seconds: Histogram,
    pub alarms_put_off: IntCounter,
    calls: IntCounterVec,
    call_seconds: Histogram,
    front_requests: IntCounterVec,
    pub front_seconds: Histogram,
    pub front_open: IntGauge,
    front_calls_refused: IntCounterVec,
    outbound_requests: IntCounterVec,
    pub outbound_open: IntGauge,
    relays: IntCounterVec,
    peers_refused: IntCounterVec,
    pub guest_log_lines: IntCounter,
    pub guest_log_lines_dropped: IntCounter,
    pub sockets: IntGauge,
    pub socket_messages_sent: IntCounter,
    pub socket_backpressure: IntCounter,
    pub socket_closes: IntCounterVec,
    pub tail_listeners: IntGauge,
    pub tail_records_lost: IntCounter,
    bucket_requests: IntCounterVec,
    bucket_request_seconds: HistogramVec,
    holds: IntCounterVec,
    give_ups: IntCounterVec,
    segments_shipped: IntCounterVec,
    shipped_bytes: IntCounter,
    upload_seconds: Histogram,
    stand_ins: IntCounterVec,
    objects_collected: IntCounter,
    restores: IntCounterVec,
    restore_seconds: Histogram,
    pub process_exits: IntCounterVec,
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
    pub fn new() -> Result<Self, Error> {
        let table = Table(Registry::new());
        Ok(Self {
            events: table.counters("wasmkeep_events_total")?,
            event_seconds: table.histograms("wasmkeep_event_seconds")?,
            refusals: table.counters("wasmkeep_refusals_total")?,
            residents: table.gauge("wasmkeep_resident_actors")?,
            wakes: table.counter("wasmkeep_wakes_total")?,
            rests: table.counter("wasmkeep_rests_total")?,
            hibernations: table.counters("wasmkeep_hibernations_total")?,
            admission_wait_seconds: table.histogram("wasmkeep_admission_wait_seconds")?,
            durable_write_seconds: table.histogram("wasmkeep_durable_write_seconds")?,
            deletes: table.counters("wasmkeep_actor_deletes_total")?,
            delete_failures: table.counters("wasmkeep_actor_delete_failures_total")?,
            alarm_lateness_seconds: table.histogram("wasmkeep_alarm_lateness_seconds")?,
            alarms_put_off: table.counter("wasmkeep_alarms_put_off_total")?,
            calls: table.counters("wasmkeep_calls_total")?,
            call_seconds: table.histogram("wasmkeep_call_seconds")?,
            front_requests: table.counters("wasmkeep_front_requests_total")?,
            front_seconds: table.histogram("wasmkeep_front_seconds")?,
            front_open: table.gauge("wasmkeep_front_open_requests")?,
            front_calls_refused: table.counters("wasmkeep_front_calls_refused_total")?,
            outbound_requests: table.counters("wasmkeep_outbound_requests_total")?,
            outbound_open: table.gauge("wasmkeep_outbound_open_requests")?,
            relays: table.counters("wasmkeep_relays_total")?,
            peers_refused: table.counters("wasmkeep_peer_connections_refused_total")?,
            guest_log_lines: table.counter("wasmkeep_guest_log_lines_total")?,
            guest_log_lines_dropped: table.counter("wasmkeep_guest_log_lines_dropped_total")?,
            sockets: table.gauge("wasmkeep_sockets")?,
            socket_messages_sent: table.counter("wasmkeep_socket_messages_sent_total")?,
            socket_backpressure: table.counter("wasmkeep_socket_backpressure_total")?,
            socket_closes: table.counters("wasmkeep_socket_closes_total")?,
            tail_listeners: table.gauge("wasmkeep_tail_listeners")?,
            tail_records_lost: table.counter("wasmkeep_tail_records_lost_total")?,
            bucket_requests: table.counters("wasmkeep_bucket_requests_total")?,
            bucket_request_seconds: table.histograms("wasmkeep_bucket_request_seconds")?,
            holds: table.counters("wasmkeep_holds_total")?,
            give_ups: table.counters("wasmkeep_give_ups_total")?,
            segments_shipped: table.counters("wasmkeep_segments_shipped_total")?,
            shipped_bytes: table.counter("wasmkeep_shipped_bytes_total")?,
            upload_seconds: table.histogram("wasmkeep_upload_seconds")?,
            stand_ins: table.counters("wasmkeep_stand_ins_total")?,
            objects_collected: table.counter("wasmkeep_objects_collected_total")?,
            restores: table.counters("wasmkeep_restores_total")?,
            restore_seconds: table.histogram("wasmkeep_restore_seconds")?,
            process_exits: table.counters("wasmkeep_process_exits_total")?,
            registry: table.0,
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

    pub fn refused(&self, reason: Reason) {
        self.refusals.with_label_values(&[reason.as_str()]).inc();
    }

    pub fn called(&self, outcome: &str, took: Duration) {
        self.calls.with_label_values(&[outcome]).inc();
        self.call_seconds.observe(took.as_secs_f64());
    }

    /// Counts a request of the front: `answered`, `failed`, `left` or `refused`.
    pub fn front_request(&self, outcome: &str) {
        self.front_requests.with_label_values(&[outcome]).inc();
    }

    /// Counts a call of the front that was one too many on its `actor`, or on the `node`.
    pub fn front_call_refused(&self, bound: &str) {
        self.front_calls_refused.with_label_values(&[bound]).inc();
    }

    /// Counts a delete: `self` or `self_durable`.
    pub fn deleted(&self, how: &str, succeeded: bool) {
        let counted = if succeeded { &self.deletes } else { &self.delete_failures };
        counted.with_label_values(&[how]).inc();
    }

    /// Counts a request to the bucket: `ok`, `mismatch`, `unknown` or `denied`.
    pub fn bucket_request(&self, operation: &str, outcome: &str, took: Duration) {
        self.bucket_requests.with_label_values(&[operation, outcome]).inc();
        self.bucket_request_seconds.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// Counts a hold: `new`, `free`, `own`, `taken` or `unchanged`.
    pub fn held(&self, how: &str) {
        self.holds.with_label_values(&[how]).inc();
    }

    /// Counts an actor that was given up.
    pub fn given_up(&self, cause: &str) {
        self.give_ups.with_label_values(&[cause]).inc();
    }

    /// Counts a segment that was acknowledged.
    pub fn shipped(&self, kind: &str, bytes: u64, took: Duration) {
        self.segments_shipped.with_label_values(&[kind]).inc();
        self.shipped_bytes.inc_by(bytes);
        self.upload_seconds.observe(took.as_secs_f64());
    }

    /// Counts a `snapshot` or a `merged` object.
    pub fn stood_in(&self, kind: &str, bytes: u64) {
        self.stand_ins.with_label_values(&[kind]).inc();
        self.shipped_bytes.inc_by(bytes);
    }

    pub fn collected(&self, objects: u64) {
        self.objects_collected.inc_by(objects);
    }

    /// Counts an actor that was brought here, from the bucket or from its own file.
    pub fn restored(&self, is_local: bool, took: Duration) {
        let from = if is_local { "file" } else { "bucket" };
        self.restores.with_label_values(&[from]).inc();
        self.restore_seconds.observe(took.as_secs_f64());
    }

    /// Counts an event handed to another node: `answered`, `refused`, `elsewhere`, `not-reached`,
    /// `lost` or `left`.
    pub fn relayed(&self, outcome: &str) {
        self.relays.with_label_values(&[outcome]).inc();
    }

    /// Counts a connection to the cluster port that was closed: `plain-text`, `no-certificate`,
    /// `handshake`, `stranger` or `too-many`.
    pub fn peer_refused(&self, why: &str) {
        self.peers_refused.with_label_values(&[why]).inc();
    }

    /// Counts an outbound request: `answered`, `denied`, `failed` or `limited`.
    pub fn outbound(&self, outcome: &str) {
        self.outbound_requests.with_label_values(&[outcome]).inc();
    }
}

/// Registers metrics as the table describes them.
struct Table(Registry);

impl Table {
    fn counter(&self, name: &str) -> Result<IntCounter, Error> {
        let row = row(name)?;
        self.register(IntCounter::new(row.name, row.help)?)
    }

    fn counters(&self, name: &str) -> Result<IntCounterVec, Error> {
        let row = row(name)?;
        self.register(IntCounterVec::new(Opts::new(row.name, row.help), row.labels)?)
    }

    fn gauge(&self, name: &str) -> Result<IntGauge, Error> {
        let row = row(name)?;
        self.register(IntGauge::new(row.name, row.help)?)
    }

    fn histogram(&self, name: &str) -> Result<Histogram, Error> {
        self.register(Histogram::with_opts(histogram(row(name)?)?)?)
    }

    fn histograms(&self, name: &str) -> Result<HistogramVec, Error> {
        let row = row(name)?;
        self.register(HistogramVec::new(histogram(row)?, row.labels)?)
    }

    fn register<M: Collector + Clone + 'static>(&self, metric: M) -> Result<M, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

fn row(name: &str) -> Result<&'static Row, Error> {
    let row = ROWS.iter().find(|row| row.name == name);
    row.ok_or_else(|| Error::Msg(format!("{name} is not in the table of metrics")))
}

fn histogram(row: &Row) -> Result<HistogramOpts, Error> {
    match row.form {
        Form::Histogram(buckets) => {
            Ok(HistogramOpts::new(row.name, row.help).buckets(buckets.to_vec()))
        }
        _ => Err(Error::Msg(format!("{} is no histogram in the table of metrics", row.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_the_table_is_registered_once_as_it_says() {
        let metrics = Metrics::new().expect("all are in the table");
        for row in ROWS {
            let taken = match row.form {
                Form::Counter => metrics.registry.register(Box::new(
                    IntCounterVec::new(Opts::new(row.name, row.help), row.labels).expect("legal"),
                )),
                Form::Gauge => metrics
                    .registry
                    .register(Box::new(IntGauge::new(row.name, row.help).expect("legal"))),
                Form::Histogram(_) => metrics.registry.register(Box::new(
                    HistogramVec::new(histogram(row).expect("one"), row.labels).expect("legal"),
                )),
            };
            assert!(matches!(taken, Err(Error::AlreadyReg)), "{} is not registered", row.name);
        }
    }

    /// `UPDATE_DOCS=1 cargo nextest run --package wasmkeep-supervisors` writes the table anew.
    #[test]
    fn the_page_on_monitoring_has_the_table_of_metrics() {
        let mut table =
            String::from("| metric | type | labels | counts |\n| --- | --- | --- | --- |\n");
        for Row { name, labels, help, form } in ROWS {
            let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>();
            let cells =
                [format!("`{name}`"), form.word().into(), labels.join(", "), (*help).into()];
            table += &format!("| {} |\n", cells.join(" | "));
        }
        crate::testing::check_page("docs/monitoring.md", "metrics", &table);
    }
}
