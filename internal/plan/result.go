package plan

// Estimate is what a strategy costs.
type Estimate struct {
	// Step is seconds of one training step; it should be between Low and High.
	Step, Low, High float64
	// MFU is the part of the cluster's peak that the model's own operations make up, recomputation left out.
	MFU float64
	// Parts add up to Step.
	Parts Parts
	// Memory is that of the stage that needs the most.
	Memory Memory
	// Stages are the pipeline ranks, in order.
	Stages []Stage
	// Fits says whether every stage's memory is within its device's.
	Fits bool
	// Level is how the constants were found: 0 specification, 1 micro-benchmarks, 2 fitted to whole runs as
	// well.
	Level int
}

// Parts are where the time of a step goes, in seconds, on the pipeline rank that is busiest.
type Parts struct {
	// Compute is forward and backward passes, Recompute what is computed again.
	Compute   float64 `json:"compute"`
	Recompute float64 `json:"recompute"`
	// Communication that nothing hides, by what it is for. DP is the reduction of gradients and what ZeRO
	// gathers.
	TP float64 `json:"tp"`
	CP float64 `json:"cp"`
	EP float64 `json:"ep"`
	PP float64 `json:"pp"`
	DP float64 `json:"dp"`
	// Bubble is waiting for other stages.
	Bubble float64 `json:"bubble"`
	// Optimizer is the update of parameters, Offload moving state to the host and back, Fixed what every step
	// takes besides.
	Optimizer float64 `json:"optimizer"`
	Offload   float64 `json:"offload"`
	Fixed     float64 `json:"fixed"`
}

// Communication returns all exposed communication.
func (p *Parts) Communication() float64 { return p.TP + p.CP + p.EP + p.PP + p.DP }

// Sum returns all of it.
func (p *Parts) Sum() float64 {
	return p.Compute + p.Recompute + p.Communication() + p.Bubble + p.Optimizer + p.Offload + p.Fixed
}

// Memory is the bytes of one device by what they hold.
type Memory struct {
	Weights     float64 `json:"weights"`
	Gradients   float64 `json:"gradients"`
	Optimizer   float64 `json:"optimizer"`
	Activations float64 `json:"activations"`
	Logits      float64 `json:"logits"`
	// Buffers are gathered parameters, communication buffers and workspaces.
	Buffers float64 `json:"buffers"`
	// Context is the driver's and the communication library's own.
	Context float64 `json:"context"`
	// Slack is what an allocator loses to fragments.
	Slack float64 `json:"slack"`
	// Cache is blocks that an allocator keeps from earlier in the step. It releases them where memory runs
	// short: they are not needed.
	Cache float64 `json:"cache"`
}

// Allocated returns what a framework reports as its peak of allocated memory: all but Context, Slack and
// Cache.
func (m *Memory) Allocated() float64 {
	return m.Weights + m.Gradients + m.Optimizer + m.Activations + m.Logits + m.Buffers
}

// Reserved returns what its allocator has taken by then, if the device has room for that.
func (m *Memory) Reserved() float64 { return m.Allocated() + m.Slack + m.Cache }

// Total returns what the device must have.
func (m *Memory) Total() float64 { return m.Allocated() + m.Context + m.Slack }

// Stage is what one pipeline rank does.
type Stage struct {
	// Layers is how many layers it has in all its chunks.
	Layers int
	// Forward, Backward and Weight are seconds of one micro-batch through all its chunks; Weight is the part of
	// Backward that only gradients of parameters need.
	Forward, Backward, Weight float64
	// Memory is what one of its devices needs, Limit what it has.
	Memory Memory
	Limit  float64
	// InFlight is how many micro-batches' activations of all its chunks it holds at once.
	InFlight float64
}
