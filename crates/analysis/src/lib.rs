//! Statistics, SQL, diffs of settings and profiles, and the rules that name a cause.
