package op

// AdaptiveAvgPool averages x [batch, channels, …] over windows such that the dims after the channels have the
// given sizes in the result. The windows cover each dim completely.
func AdaptiveAvgPool(x *Tensor, size ...int) *Tensor {
	return adaptivePool(x, "adaptive_avg_pool", size, Mean)
}

// AdaptiveMaxPool is like AdaptiveAvgPool with the largest element of each window.
func AdaptiveMaxPool(x *Tensor, size ...int) *Tensor {
	return adaptivePool(x, "adaptive_max_pool", size, AMax)
}

func adaptivePool(x *Tensor, name string, size []int, f func(x *Tensor, dims ...int) *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	first := len(x.Shape()) - len(size)
	if first < 1 || len(size) == 0 {
		return refuse(x, name, "%v to sizes %v: want channels and a dim for each size", x.Type(), size)
	}
	for i, n := range size {
		d := first + i
		whole := x.Dim(d)
		if n < 1 || whole < 1 {
			return refuse(x, name, "%v to sizes %v: want sizes of 1 or more", x.Type(), size)
		}
		windows := make([]*Tensor, n)
		for w := range windows {
			windows[w] = f(Narrow(x, d, w*whole/n, ((w+1)*whole+n-1)/n), d)
		}
		x = Stack(windows, d)
	}
	return x
}
