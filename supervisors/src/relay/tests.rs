//! The head of an event on its way between nodes, and who has its actor.

mod answers;
mod encoding;
mod following;
