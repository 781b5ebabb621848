// Package text computes the features of a content that the other packages compare, index and match: views, carriers,
// phrases and fingerprints.
//
// A segment is a part of the content that is read separately, with its escapes resolved: a string of a document, a
// cell, the text of an element. A view is the content as a model would understand it, without disguise: normalized or
// decoded. A carrier is a typed token that can carry an attack from a document to an action: an address, a host, a
// path, an account. Phrases are hashed word n-grams. They survive copying, extracting and reordering. A fingerprint
// recognizes the same and almost the same text.
//
// The package also changes texts after a decision: [Mask] removes parts, [Spotlight] and [Annotate] mark the text.
// [Grounding] measures how far an answer is supported by its sources.
//
// All functions are pure functions of their input and of [Version], with the same results on every machine. Time and
// memory are linear in the content. No input makes them panic. If a limit cut something off, Partial is set in
// [Features], so that a rule can treat such a content with suspicion: an attacker may exceed a limit on purpose.
//
// The package does not judge: rules decide whether a text is an injection or a secret. A match says that two texts look
// alike, not that either can be trusted. Only a match of [VerbatimSpan] is exact enough that a text may be trusted
// because of it.
//
// The normal form follows Unicode UAX #15 (NFKC) and UTS #39 (confusables). Phrases are selected by winnowing
// (Schleimer, Wilkerson, Aiken: "Winnowing: local algorithms for document fingerprinting", 2003). Near-duplicates are
// found by min-hash (Broder, 1997) with banding.
//
// Of this module, the package imports only pkg/text/command. Start reading with text.go and carrier.go.
package text
