package data

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNFC(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"plain é", "plain é"},
		{"e\u0301", "é"},
		{"u\u0308\u0304", "\u01d6"},
		{"q\u0307\u0323", "q\u0323\u0307"},            // marks in canonical order
		{"d\u0307\u0323", "\u1e0d\u0307"},             // composed past a mark of another class
		{"a\u0301\u0301", "á\u0301"},                  // a second mark of the class is blocked
		{"\u212b\u2126", "ÅΩ"},                        // singletons
		{"\u0958", "\u0915\u093c"},                    // excluded from composition
		{"\u1112\u1161\u11ab\uac00\u11a8", "\ud55c각"}, // Hangul
		{"\u0301e", "\u0301e"},                        // a mark without a starter
		{"e\u0301\xffe\u0301", "é\xffé"},              // not UTF-8
		{"\uFFFDe\u0301", "\uFFFDé"},
	} {
		if got := nfc(test.text); got != test.want {
			t.Errorf("%+q: got %+q, want %+q", test.text, got, test.want)
		}
	}
}

func TestNFCTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := nfc(rapid.String().Draw(t, "text"))
		if twice := nfc(once); twice != once {
			t.Fatalf("got %+q, want %+q", twice, once)
		}
	})
}
