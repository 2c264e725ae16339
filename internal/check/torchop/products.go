package torchop

import "github.com/galley-ml/galley/op"

// products returns products of matrices and vectors.
func products() map[string]builder {
	t := map[string]builder{
		"matmul": func(a *attrs) Func {
			ta, tb := a.bool("transpose_a", false), a.bool("transpose_b", false)
			return lift2(func(x, y *op.Tensor) *op.Tensor { return op.MatMulT(x, y, ta, tb) })
		},
		"einsum": func(a *attrs) Func {
			equation := a.string("equation", "")
			return liftAll(func(in []*op.Tensor) *op.Tensor { return op.Einsum(equation, in...) })
		},
		"addmm": plusProduct, "addmv": plusProduct, "baddbmm": plusProduct,
		"linear": func(*attrs) Func {
			return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
				y := op.MatMulT(in[0], in[1], false, true)
				if in[2] != nil {
					return op.Add(y, in[2])
				}
				return y
			})
		},
		"tensordot": tensordot,
		"cross":     cross,
	}
	binary(t, map[string]func(x, y *op.Tensor) *op.Tensor{
		"mm": op.MatMul, "bmm": op.MatMul, "mv": op.MatMul, "dot": op.MatMul,
		"outer": func(x, y *op.Tensor) *op.Tensor { return op.Einsum("i,j->ij", x, y) },
		"kron":  kron,
	})
	t["inner"] = func(*attrs) Func {
		return lift2(func(x, y *op.Tensor) *op.Tensor {
			if x.Err() == nil && y.Err() == nil && (len(x.Shape()) == 0 || len(y.Shape()) == 0) {
				return op.Mul(x, y)
			}
			return contract(x, y, []int{-1}, []int{-1})
		})
	}
	alias(t, "ger", "outer", "vdot", "dot")
	return t
}

// plusProduct returns beta·x + alpha·(y·z).
func plusProduct(a *attrs) Func {
	beta, alpha := a.float("beta", 1), a.float("alpha", 1)
	return lift3(func(x, y, z *op.Tensor) *op.Tensor {
		return op.Add(op.MulScalar(x, beta), op.MulScalar(op.MatMul(y, z), alpha))
	})
}

// tensordot sums over the last dims of x and the first of y, or over those that are named.
func tensordot(a *attrs) Func {
	pairs := get(a, "dims", any(2.0))
	return lift2(func(x, y *op.Tensor) *op.Tensor {
		if x.Err() != nil || y.Err() != nil {
			return op.MatMul(x, y)
		}
		var left, right []int
		switch p := pairs.(type) {
		case float64:
			for i := range int(p) {
				left, right = append(left, len(x.Shape())-int(p)+i), append(right, i)
			}
		case []any:
			left, right = wholes(p, 0), wholes(p, 1)
		}
		return contract(x, y, left, right)
	})
}

// wholes returns the numbers of a list within a list.
func wholes(lists []any, i int) (out []int) {
	if i >= len(lists) {
		return nil
	}
	list, _ := lists[i].([]any)
	for _, n := range list {
		f, _ := n.(float64)
		out = append(out, int(f))
	}
	return out
}

// contract returns the sum of products over pairs of dims.
func contract(x, y *op.Tensor, left, right []int) *op.Tensor {
	if x.Err() != nil || y.Err() != nil {
		return op.MatMul(x, y)
	}
	next := 'a'
	names := func(rank int) []rune {
		list := make([]rune, rank)
		for i := range list {
			list[i] = next
			next++
		}
		return list
	}
	a, b := names(len(x.Shape())), names(len(y.Shape()))
	summed := map[rune]bool{}
	for i := range left {
		l, r := at(left[i], len(a)), at(right[i], len(b))
		b[r] = a[l]
		summed[a[l]] = true
	}
	var out []rune
	for _, c := range append(append([]rune{}, a...), b...) {
		if !summed[c] {
			out = append(out, c)
		}
	}
	return op.Einsum(string(a)+","+string(b)+"->"+string(out), x, y)
}

// kron returns every element of x times all of y.
func kron(x, y *op.Tensor) *op.Tensor {
	if x.Err() != nil || y.Err() != nil || len(x.Shape()) != len(y.Shape()) {
		return op.Mul(x, y)
	}
	var a, b, shape []int
	for d := range x.Shape() {
		a, b = append(a, x.Dim(d), 1), append(b, 1, y.Dim(d))
		shape = append(shape, x.Dim(d)*y.Dim(d))
	}
	return op.Reshape(op.Mul(op.Reshape(x, a...), op.Reshape(y, b...)), shape...)
}

// cross returns the vector product along a dim of size 3.
func cross(a *attrs) Func {
	dim := a.dim(-1)
	return lift2(func(x, y *op.Tensor) *op.Tensor {
		turn := func(t *op.Tensor, by int) *op.Tensor { return op.Roll(t, []int{by}, []int{dim}) }
		return op.Sub(op.Mul(turn(x, -1), turn(y, 1)), op.Mul(turn(x, 1), turn(y, -1)))
	})
}
