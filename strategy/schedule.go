package strategy

import "github.com/galley-ml/galley/internal/pipeline"

// The types for writing a pipeline schedule in another module.
type (
	// Schedule is the order of actions on every rank. An Action is a forward or backward pass of one stage
	// for one micro-batch. Strategy.Schedule accepts its text in place of a name.
	Schedule   = pipeline.Schedule
	Action     = pipeline.Action
	ActionKind = pipeline.Kind
	// ScheduleConfig is the number of ranks, micro-batches and chunks per rank that a schedule is made for.
	ScheduleConfig = pipeline.Config
	// ScheduleClass has the properties of a schedule: its name, a one-line description, the number of stages
	// per rank, whether they form a V, and whether backward passes are split.
	ScheduleClass = pipeline.Class
)

// The kinds of actions: a forward pass, a whole backward pass, and the two parts of a split one (input
// gradients, weight gradients).
const (
	Forward  = pipeline.Forward
	Backward = pipeline.Backward
	Input    = pipeline.Input
	Weight   = pipeline.Weight
)

// RegisterSchedule adds a pipeline schedule for trainers, planners and the search: Strategy{PP: 4, Schedule:
// "mine"}. build must make a schedule for every number of ranks and micro-batches, and of chunks if c.Chunks
// is 0. It is tested immediately in many sizes: each schedule must be complete, in order, free of deadlock
// and as c describes it, or the error names the first that is not.
func RegisterSchedule(c ScheduleClass, build func(ScheduleConfig) *Schedule) error {
	return pipeline.Register(c, build)
}

// CyclicPlace puts stage i on rank i modulo ranks.
func CyclicPlace(ranks, chunks int) []int { return pipeline.Cyclic(ranks, chunks) }

// VeePlace puts two stages on each rank, down the ranks and up again, so that the first and the last stage
// share a rank.
func VeePlace(ranks int) []int { return pipeline.Vee(ranks) }
