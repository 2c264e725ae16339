// Package forecast plans and prices the training of a model on in-process devices: it is where models, which
// have layers and parameters, meet the planner, which knows shapes and clusters.
//
// Its one idea: a run is described once (Run), and everything is asked of that: the best strategy (Auto), the
// time of a given one (Price), whether a plan file is for it (File). What a plan says is what a trainer runs;
// a strategy that no trainer runs is never chosen. Where a calibration has measured the machine, the measured
// cluster is planned for, and not what such machines usually do.
package forecast
