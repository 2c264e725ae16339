package optim

// ShardingStage is a ZeRO stage: ShardingStage1, ShardingStage2 or ShardingStage3.
type ShardingStage interface {
	// Stage returns 1, 2 or 3.
	Stage() int
	// Over returns the mesh axis; empty means dp.
	Over() string
}

// ShardingStage1 shards the optimizer state over the data axes.
type ShardingStage1 struct {
	// Axis is dp or empty; the axes of experts and sequences, if split, belong to the data axes, too. In an
	// eager loop it may be any axis of the parameters' meshes.
	Axis string
}

// ShardingStage2 also shards the gradients, with a reduce-scatter as soon as they are computed.
type ShardingStage2 struct{ Axis string }

// ShardingStage3 also shards the parameters: each layer gathers its weights before use.
type ShardingStage3 struct{ Axis string }

// Stage returns 1.
func (ShardingStage1) Stage() int { return 1 }

// Stage returns 2.
func (ShardingStage2) Stage() int { return 2 }

// Stage returns 3.
func (ShardingStage3) Stage() int { return 3 }

// Over returns the mesh axis.
func (s ShardingStage1) Over() string { return s.Axis }

// Over returns the mesh axis.
func (s ShardingStage2) Over() string { return s.Axis }

// Over returns the mesh axis.
func (s ShardingStage3) Over() string { return s.Axis }
