//! The commands, as a person calls them: by the binary, and where that would be slow, by what it is made of.

mod config;
mod dev;
mod examples;
mod help;
mod load;
mod plugin;
mod project;
mod shop;
