// Package runs compares the planner's predictions, of step times and memory, with training runs that others
// published.
package runs
