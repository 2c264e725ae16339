package strategy

import "github.com/galley-ml/galley/internal/pipeline"

// What a pipeline schedule of another module is written with.
type (
	// Schedule is the order in which every rank does its actions, and Action a forward or backward pass of one
	// stage on one micro-batch. Its text is what Strategy.Schedule takes in place of a name.
	Schedule   = pipeline.Schedule
	Action     = pipeline.Action
	ActionKind = pipeline.Kind
	// ScheduleConfig is how many ranks, micro-batches and chunks a rank a schedule is made for.
	ScheduleConfig = pipeline.Config
	// ScheduleClass is what is to be known of a schedule: its name, a line for people, how many stages a rank
	// holds, whether they form a V, whether backward passes are split.
	ScheduleClass = pipeline.Class
)

// The kinds of actions: a forward pass, a whole backward pass, and the two halves of one.
const (
	Forward  = pipeline.Forward
	Backward = pipeline.Backward
	Input    = pipeline.Input
	Weight   = pipeline.Weight
)

// RegisterSchedule adds a pipeline schedule under its name, by which trainers, planners and the search find
// it: Strategy{PP: 4, Schedule: "mine"}. build must make a schedule for every number of ranks and
// micro-batches, and of chunks where c.Chunks is 0. It is tried in many sizes at once: each must be complete,
// in order, free of deadlock and what c says, or the error names the first that is not.
func RegisterSchedule(c ScheduleClass, build func(ScheduleConfig) *Schedule) error {
	return pipeline.Register(c, build)
}

// CyclicPlace returns stage i on rank i modulo ranks.
func CyclicPlace(ranks, chunks int) []int { return pipeline.Cyclic(ranks, chunks) }

// VeePlace returns two stages per rank, down the ranks and up again: the first and the last share a rank.
func VeePlace(ranks int) []int { return pipeline.Vee(ranks) }
