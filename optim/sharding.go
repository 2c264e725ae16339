package optim

// ShardingStage is one of ZeRO's: ShardingStage1, ShardingStage2 or ShardingStage3.
type ShardingStage interface {
	// Stage returns 1, 2 or 3.
	Stage() int
	// Over returns the mesh axis; empty is dp.
	Over() string
}

// ShardingStage1 splits the optimizer's memory over the data axes.
type ShardingStage1 struct {
	// Axis is dp, also where it is empty. Where experts or sequences are split, too, their axes belong to the
	// data axes. In an eager loop it may be any axis of the meshes that parameters are on.
	Axis string
}

// ShardingStage2 also splits the sums of gradients: they are scattered as soon as they are made.
type ShardingStage2 struct{ Axis string }

// ShardingStage3 also splits the parameters: a layer gathers them when it computes.
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
