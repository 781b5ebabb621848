// Package lexical is an inverted index with BM25 ranking that is stored in a key-value state. It is part of a fold: the
// fold writes it, and replaying the ledger rebuilds it.
//
// The same documents added in the same order give the same keys, and the same answers in the same order, on every
// machine. All arithmetic is in integers. The index stores nothing outside the state. So after a crash, the index and
// the state still agree.
//
// Adding a document costs a few writes, independent of the size of the index. A search reads the postings of its terms,
// at most MaxPostings of each. Documents are never changed. Removing one marks it, and Sweep removes the postings of
// marked documents in steps. Every document has a number of 32 bits, which is not used again after the document was
// removed. The index does not know whether a document is still valid, so the caller looks up each hit and decides
// whether to use it.
//
// The ranking is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with k1
// = 1.2 and b = 0.75, with two changes. The average length of documents is a constant, so that a posting's weight never
// changes and fits into seven bits (an impact, see Anh and Moffat 2002). If more than MaxPostings documents have a
// term, only the latest ones count.
//
// Postings are stored in runs, as in the logarithmic method (Bentley and Saxe, 1980). Every 512 documents form a
// segment. The postings of a segment are split into 512 buckets by term. Eight runs of a bucket are merged to one, on
// four levels. Each added document triggers the merge of one bucket, so that no document pays for merging the whole
// index. A term that occurs in many documents of a large run has a key of its own, so that a search for this term need
// not read the whole bucket.
//
// It may import pkg/text. Begin reading with lexical.go, then search.go; run.go keeps the postings, and remove.go
// removes them.
package lexical
