package main

func Example() {
	main()
	// Output:
	// on one device
	// step  5  loss 3.72
	// step 10  loss 3.07
	// step 10  held out: loss 3.07, accuracy 0.17
	// on dp2·tp2·pp2 zero1 ×4
	// step 15  loss 3.08
	// step 20  loss 3.07
	// step 20  held out: loss 3.03, accuracy 0.17
}
