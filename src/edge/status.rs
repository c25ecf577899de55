//! Which HTTP status a refusal leaves with. Pure.

use wasmkeep_supervisors::event::Reason;

pub const fn status(reason: Reason) -> u16 {
    match reason {
        Reason::BadRequest => 400,
        Reason::NotFound => 404,
        Reason::BodyTooLarge => 413,
        Reason::QueueFull => 429,
        Reason::NoCapacity | Reason::Stopping | Reason::Unavailable | Reason::Quarantined => 503,
        Reason::InitFailed
        | Reason::NoResponse
        | Reason::Trapped
        | Reason::CpuExceeded
        | Reason::WallExceeded
        | Reason::NotInstantiated
        | Reason::DatabaseUnusable
        | Reason::HostFault => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_offered_exactly_where_it_can_help() {
        for reason in Reason::ALL {
            let may_help = matches!(
                reason,
                Reason::NoCapacity | Reason::Stopping | Reason::Unavailable | Reason::Quarantined
            );
            assert_eq!(status(reason) == 503, may_help, "{reason:?}");
        }
    }
}
