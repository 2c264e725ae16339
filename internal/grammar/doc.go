// Package grammar says which tokens may come next in a text that must follow a grammar: a JSON schema, a
// regular expression or one of several texts.
//
// A Grammar is rules over bytes. A Matcher goes along a text with the set of all places in the rules where
// the text so far may stand; places are stacks, since rules call each other. Sets are numbered as they are
// met, with what each byte leads to and the tokens that fit, so that they are found once and not at every
// token.
package grammar
