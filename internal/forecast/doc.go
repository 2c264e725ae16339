// Package forecast plans the training of a model on in-process devices and predicts its time: it connects
// models, which have layers and parameters, with the planner, which knows shapes and clusters.
//
// A run is described once (Run), and everything is computed from that: the best strategy (Auto), the time of
// a given one (Price), whether a plan file is for it (File). A trainer runs exactly what a plan describes; a
// strategy that no trainer supports is never chosen. If a calibration has measured the machine, the planner
// uses the measured cluster instead of a typical one.
package forecast
