// Package nn holds the building blocks of models: named parameters, and layers that are plain structs of
// parameters with a Forward method.
//
// A layer reads a parameter's Value. In eager mode that is data; while a model is traced it is the program's
// parameter; the layer's code is the same.
//
//	in := nn.NewInit(nn.Config{Scope: session, Seed: 1})
//	up := nn.NewLinear(in.At("up"), 64, 256)
//	y := up.Forward(x)                   // up.weight and up.bias exist, named so
package nn
