//! Every metric is documented, and no page or dashboard names one that is not there.

use std::collections::BTreeSet;

use super::rust_text::{find_word, is_word};
use super::sources::{Problem, Source, Sources};

const SOURCE: &str = "supervisors/src/metrics";
const PAGE: &str = "docs/monitoring.md";
const DASHBOARDS: &str = "dashboards/";
const PREFIX: &str = "wasmkeep_";
/// What Prometheus appends to a histogram's name.
const SERIES: &[&str] = &["_bucket", "_sum", "_count"];

pub fn check(sources: &Sources) -> Vec<Problem> {
    let mut metrics = BTreeSet::new();
    for source in sources.rust_below(SOURCE) {
        metrics.extend(names(source).filter(|&(at, _)| quoted(source, at)).map(|(_, name)| name));
    }
    if metrics.is_empty() {
        let message = "names no metric: write each whole name there, as a string \
                       `\"wasmkeep_…\"`, so that it can be searched for";
        return vec![Problem::of_file("supervisors/src/metrics.rs", message)];
    }
    let Some(page) = sources.get(PAGE) else {
        return vec![Problem::of_file(
            PAGE,
            "is missing: it lists every metric and what it counts",
        )];
    };
    let mut problems: Vec<Problem> = metrics
        .iter()
        .filter(|name| find_word(&page.text, name).next().is_none())
        .map(|name| Problem::of_file(PAGE, format!("does not list `{name}`: say what it counts")))
        .collect();
    for source in std::iter::once(page).chain(sources.below(DASHBOARDS)) {
        for (offset, name) in names(source) {
            if !is_metric(name, &metrics) {
                let message = format!("`{name}` is no metric of {SOURCE}.rs: correct the name");
                problems.push(source.problem(offset, message));
            }
        }
    }
    problems
}

/// Every name with the prefix, and where it stands. A prefix alone (`wasmkeep_actor_*`) is none.
fn names(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let starts = source.text.match_indices(PREFIX).map(|(start, _)| start);
    starts.filter_map(|start| {
        let rest = &source.text[start..];
        let length = rest.bytes().take_while(|&byte| is_word(byte)).count();
        let inside = source.text[..start].bytes().last().is_some_and(is_word);
        let name = &rest[..length];
        (!inside && !name.ends_with('_')).then_some((start, name))
    })
}

fn quoted(source: &Source, start: usize) -> bool {
    source.text[..start].ends_with('"')
}

fn is_metric(name: &str, metrics: &BTreeSet<&str>) -> bool {
    let base = SERIES.iter().find_map(|series| name.strip_suffix(series));
    metrics.contains(name) || base.is_some_and(|base| metrics.contains(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: (&str, &str) = (
        "supervisors/src/metrics.rs",
        "// like wasmkeep_other\nnew(\"wasmkeep_events_total\"); new(\"wasmkeep_wait_seconds\");",
    );

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(&[files, &[METRICS]].concat())).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn documented_metrics_and_their_series_pass() {
        let page = "`wasmkeep_events_total`, wasmkeep_wait_seconds; all are `wasmkeep_*`.";
        let board = "\"expr\": \"rate(wasmkeep_wait_seconds_bucket[5m])\"";
        assert!(problems(&[(PAGE, page), ("dashboards/node.json", board)]).is_empty());
    }

    #[test]
    fn a_metric_without_a_line_is_a_problem() {
        let found = problems(&[(PAGE, "wasmkeep_events_total")]);
        assert!(found.len() == 1 && found[0].contains("wasmkeep_wait_seconds"), "{found:?}");
        assert!(problems(&[])[0].contains("is missing"));
    }

    #[test]
    fn a_name_that_is_no_metric_is_a_problem() {
        let page = "wasmkeep_events_total wasmkeep_wait_seconds\nwasmkeep_events";
        let found = problems(&[(PAGE, page), ("dashboards/node.json", "wasmkeep_gone")]);
        assert!(found.len() == 2 && found[0].starts_with("docs/monitoring.md:2:"), "{found:?}");
    }

    #[test]
    fn no_metric_at_all_is_a_problem() {
        assert_eq!(check(&Sources::of(&[])).len(), 1);
    }
}
