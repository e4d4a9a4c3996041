mod lies;
mod model;
mod planted;
mod rules;
