// Package local runs training steps on one device of the host: compiled, or eagerly op by op. The parameters'
// values are in the model all the time; the optimizer's slots are kept here.
package local
