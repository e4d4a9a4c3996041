mod model;
mod planted;
mod posts;
mod protocol_errors;
mod rules;
