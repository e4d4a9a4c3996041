mod model;
mod planted;
mod posts;
mod rules;
