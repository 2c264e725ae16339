package plan

// Published is level 1 from published micro-benchmarks.
func Published() Calibration { return Calibration{Level: 1, Source: "published micro-benchmarks"} }
