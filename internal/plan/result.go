package plan

// Estimate is the cost of a strategy.
type Estimate struct {
	// Step is the seconds of one training step, expected between Low and High.
	Step, Low, High float64
	// MFU is the model flops utilization: the model's own operations, without recomputation, relative to the
	// cluster's peak.
	MFU float64
	// Parts sum to Step.
	Parts Parts
	// Memory is that of the stage that needs the most.
	Memory Memory
	// Stages holds the pipeline ranks, in order.
	Stages []Stage
	// Fits is whether every stage's memory is within its device's.
	Fits bool
	// Level is the origin of the constants: 0 specification, 1 micro-benchmarks, 2 fitted to whole runs as well.
	Level int
}

// Parts is the breakdown of a step's time, in seconds, on the busiest pipeline rank.
type Parts struct {
	// Compute is forward and backward passes, Recompute recomputation.
	Compute   float64 `json:"compute"`
	Recompute float64 `json:"recompute"`
	// Exposed communication, by purpose. DP is the reduction of gradients and what ZeRO gathers.
	TP float64 `json:"tp"`
	CP float64 `json:"cp"`
	EP float64 `json:"ep"`
	PP float64 `json:"pp"`
	DP float64 `json:"dp"`
	// Bubble is the time spent waiting for other stages.
	Bubble float64 `json:"bubble"`
	// Optimizer is the update of parameters, Offload the transfer of state to the host and back, Fixed a
	// constant part of every step.
	Optimizer float64 `json:"optimizer"`
	Offload   float64 `json:"offload"`
	Fixed     float64 `json:"fixed"`
}

// Communication returns all exposed communication.
func (p *Parts) Communication() float64 { return p.TP + p.CP + p.EP + p.PP + p.DP }

// Sum returns the total.
func (p *Parts) Sum() float64 {
	return p.Compute + p.Recompute + p.Communication() + p.Bubble + p.Optimizer + p.Offload + p.Fixed
}

// Memory is the breakdown of a device's memory in bytes.
type Memory struct {
	Weights     float64 `json:"weights"`
	Gradients   float64 `json:"gradients"`
	Optimizer   float64 `json:"optimizer"`
	Activations float64 `json:"activations"`
	Logits      float64 `json:"logits"`
	// Buffers are gathered parameters, communication buffers and workspaces.
	Buffers float64 `json:"buffers"`
	// Context is the memory of the driver and the communication library.
	Context float64 `json:"context"`
	// Slack is what an allocator loses to fragmentation.
	Slack float64 `json:"slack"`
	// Cache is memory that an allocator keeps from earlier in the step and releases when memory runs short, so
	// it is not needed.
	Cache float64 `json:"cache"`
}

// Allocated returns what a framework reports as its peak of allocated memory: all but Context, Slack and
// Cache.
func (m *Memory) Allocated() float64 {
	return m.Weights + m.Gradients + m.Optimizer + m.Activations + m.Logits + m.Buffers
}

// Reserved returns what its allocator has reserved at that point, if the device has enough memory.
func (m *Memory) Reserved() float64 { return m.Allocated() + m.Slack + m.Cache }

// Total returns the memory that the device must have.
func (m *Memory) Total() float64 { return m.Allocated() + m.Context + m.Slack }

// Stage describes one pipeline rank.
type Stage struct {
	// Layers is the number of layers in all its chunks.
	Layers int
	// Forward, Backward and Weight are the seconds of one micro-batch through all its chunks; Weight is the part
	// of Backward for gradients of parameters only.
	Forward, Backward, Weight float64
	// Memory is the need of one of its devices, Limit what the device has.
	Memory Memory
	Limit  float64
	// InFlight is the number of micro-batches whose activations it holds at once, over all its chunks.
	InFlight float64
}
