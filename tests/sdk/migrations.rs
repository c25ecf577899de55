use serde_json::{Value as Json, json};

use super::{sdk, sdk_in_typescript};
use crate::support::Actor;

/// Migrates as code with these steps does; `null`, or why it failed.
#[track_caller]
fn migrate(actor: &Actor, steps: &str) -> Json {
    actor.post(&format!("/migrate?steps={steps}"), "").json()["failed"].clone()
}

#[track_caller]
fn fails(actor: &Actor, steps: &str, says: &str) {
    let failed = migrate(actor, steps);
    assert!(failed.as_str().is_some_and(|how| how.contains(says)), "{steps}: {failed}");
}

/// The rows of a query; its text needs no encoding but for spaces.
#[track_caller]
fn rows(actor: &Actor, sql: &str) -> Json {
    actor.get(&format!("/rows?sql={}", sql.replace(' ', "+"))).json()
}

fn tables(actor: &Actor) -> Json {
    let all = "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name";
    let mut names = rows(actor, all);
    // The host keeps one of its own beside them.
    names.as_array_mut().expect("rows").retain(|row| row[0] != "_wk_meta");
    names
}

fn versions(actor: &Actor) -> Json {
    rows(actor, "SELECT version,breaking FROM _sdk_migrations ORDER BY version")
}

#[test]
fn only_the_steps_that_are_missing_run() {
    let mut node = sdk().start();
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words"), Json::Null);
    assert_eq!(rows(&actor, "SELECT * FROM items"), json!([["two words", null]]));
    node.kill();
    node.start_again();
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words"), Json::Null);
    assert_eq!(migrate(&actor, "create,words,fill,price"), Json::Null);
    assert_eq!(migrate(&actor, "create,words,fill,price"), Json::Null);
    assert_eq!(rows(&actor, "SELECT * FROM items"), json!([["two words", 2, null]]));
    assert_eq!(versions(&actor), json!([[1, 0], [2, 0], [3, 0], [4, 0]]));
}

#[test]
fn a_step_that_fails_leaves_nothing_and_those_before_it_stay() {
    let node = sdk().errors_are_fine().start();
    let actor = node.actor("sdk/a");
    fails(&actor, "create,half,words", "step 2 failed: invalid SQL: no such table: nowhere");
    assert_eq!(tables(&actor), json!([["_sdk_migrations"], ["items"]]));
    assert_eq!(versions(&actor), json!([[1, 0]]));
    // A trap is a failure too, and the next event goes on there.
    actor.post("/migrate?steps=create,trap", "").refused(500, "trapped", "ran");
    assert_eq!(tables(&actor), json!([["_sdk_migrations"], ["items"]]));
    // A step that has run nowhere may be mended.
    assert_eq!(migrate(&actor, "create,words"), Json::Null);
    assert_eq!(rows(&actor, "SELECT count(*) FROM items"), json!([[1]]));
}

#[test]
fn older_code_works_on_with_a_newer_database_unless_a_step_forbids_it() {
    let node = sdk().start();
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words,fill"), Json::Null);
    assert_eq!(migrate(&actor, "create"), Json::Null, "back to the first code");
    assert_eq!(versions(&actor), json!([[1, 0], [2, 0], [3, 0]]));
    assert_eq!(migrate(&actor, "create,words,fill,rename"), Json::Null, "and forward again");
    assert_eq!(versions(&actor), json!([[1, 0], [2, 0], [3, 0], [4, 1]]));
    let before = tables(&actor);
    fails(
        &actor,
        "create,words,fill",
        "the database is at version 4, this code knows 3, and step 4 is marked as breaking",
    );
    assert_eq!(tables(&actor), before);
    assert_eq!(migrate(&actor, "create,words,fill,rename"), Json::Null);
    assert_eq!(rows(&actor, "SELECT name FROM items"), json!([["two words"]]));
}

#[test]
fn another_step_in_the_place_of_one_that_ran_is_refused() {
    let node = sdk().start();
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words,fill"), Json::Null);
    for (steps, step) in [("create,price", 2), ("words,create,fill", 1), ("create,words,price", 3)]
    {
        fails(&actor, steps, &format!("step {step} is not the one that ran on this database"));
    }
    assert_eq!(versions(&actor), json!([[1, 0], [2, 0], [3, 0]]));
    assert_eq!(migrate(&actor, "create,words,fill,price"), Json::Null);
}

#[test]
fn migrations_go_on_between_the_languages() {
    let mut node = sdk().start();
    assert_eq!(migrate(&node.actor("sdk/a"), "create,words"), Json::Null);
    node.stop_cleanly();
    node.start_again_as(sdk_in_typescript());
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words,fill,rename"), Json::Null);
    fails(&actor, "words,create", "step 1 is not the one that ran on this database");
    node.stop_cleanly();
    node.start_again_as(sdk());
    let actor = node.actor("sdk/a");
    assert_eq!(migrate(&actor, "create,words,fill,rename,price"), Json::Null);
    fails(&actor, "create,words,fill", "step 4 is marked as breaking");
    assert_eq!(rows(&actor, "SELECT * FROM items"), json!([["two words", 2, null]]));
    assert_eq!(versions(&actor), json!([[1, 0], [2, 0], [3, 0], [4, 1], [5, 0]]));
}
