//! Compression and cryptography in user space: zlib, zstd, lz4, xz, OpenSSL.

/// Names that carry their origin: the library may be linked into any program.
const ANY: &[&str] = super::ANYWHERE;
/// zlib, zlib-ng, and programs and libraries that bring their own copy.
const ZLIB: &[&str] = &["libz.so", "libz-ng.so", "gzip", "pigz", "libzip.so", "git", "node", "mysqld", "mariadbd"];
/// xz.
const XZ: &[&str] = &["liblzma.so", "xz"];
/// OpenSSL's ciphers.
const CRYPTO: &[&str] = &["libcrypto.so", "openssl", "node"];
/// OpenSSL's protocol.
const SSL: &[&str] = &["libssl.so", "openssl", "node"];

pub(super) const PLACES: &[super::Place] = places! {
    ["deflate", "deflate_fast", "deflate_slow", "deflate_stored", "longest_match*", "fill_window*", "insert_string*", "deflate_quick", "deflate_medium"] in ZLIB
        what "zlib: searching for matches while compressing"
        by "deflate; levels 4 and more search longer (deflate_slow)"
        set ["zlib: level", "zlib: memLevel", "zlib: strategy"]
        next "compare level and bytes; zlib-ng or libdeflate do the same format faster";
    ["compress_block", "_tr_flush_block", "build_tree", "_tr_tally", "gen_bitlen", "send_tree", "pqdownheap", "zng_tr_flush_block"] in ZLIB
        what "zlib: coding what was found"
        by "deflate"
        set ["zlib: level", "zlib: strategy"]
        next "compare bytes; small messages pay most for their tables";
    ["inflate", "inflate_fast", "inflate_table", "inflate_fast_*", "inflateBack", "inflate_block", "updatewindow"] in ZLIB
        what "zlib: decompressing"
        by "inflate: gzip, PNG, HTTP, packed files, Java's jars"
        set ["zlib: windowBits", "program: compression method"]
        next "compare bytes; inflate_table says that blocks are small";
    ["crc32", "crc32_z", "crc32_little", "crc32_combine*", "adler32", "adler32_z", "crc32_pclmulqdq*", "adler32_avx2*"] in ZLIB
        what "zlib: checksums"
        by "gzip streams and other users of crc32"
        set ["cpu.flags", "program: checksum"]
        next "plain zlib uses tables, zlib-ng instructions of the processor: compare the library";
    ["deflateInit2_", "deflateReset*", "deflateInit_", "inflateInit2_", "inflateReset*", "lm_init", "deflateEnd", "inflateEnd"] in ZLIB
        what "zlib: setting up and clearing about 256 KiB of state"
        by "a new stream for each small message"
        set ["zlib: memLevel", "zlib: windowBits", "env.MALLOC_MMAP_THRESHOLD_"]
        next "keep streams and reset them; see whether malloc maps each anew (mmap, faults)";
    ["ZSTD_compressBlock_fast*", "ZSTD_compressBlock_doubleFast*", "ZSTD_fillHashTable*", "ZSTD_fillDoubleHashTable*"] in ANY
        what "zstd: searching for matches, levels up to about 4"
        by "compression"
        set ["zstd: level", "zstd: windowLog", "zstd: nbWorkers"]
        next "compare level and bytes; negative levels are faster still";
    ["ZSTD_compressBlock_greedy*", "ZSTD_compressBlock_lazy*", "ZSTD_RowFindBestMatch*", "ZSTD_HcFindBestMatch*", "ZSTD_row_update*", "ZSTD_searchMax*", "ZSTD_BtFindBestMatch*"] in ANY
        what "zstd: searching for matches, middle levels (about 5 to 15)"
        by "compression"
        set ["zstd: level", "zstd: searchLog", "zstd: windowLog"]
        next "compare level; a table that exceeds the processor's cache makes each step a miss";
    ["ZSTD_compressBlock_btopt*", "ZSTD_compressBlock_btultra*", "ZSTD_compressBlock_btlazy2*", "ZSTD_insertBt*", "ZSTD_btGetAllMatches*", "ZSTD_updateTree*", "ZSTD_DUBT_*"] in ANY
        what "zstd: searching for the best matches, high levels (16 and more)"
        by "compression"
        set ["zstd: level", "zstd: strategy", "zstd: targetLength"]
        next "see whether the ratio is worth it: compare level 9 or 12";
    ["ZSTD_decompressSequences*", "ZSTD_decompressBlock_internal*", "ZSTD_execSequence*", "ZSTD_decompressMultiFrame", "ZSTD_decompressStream", "ZSTD_decompressDCtx", "ZSTD_safecopy"] in ANY
        what "zstd: decompressing, putting matches together"
        by "decompression; the level hardly matters"
        set ["zstd: windowLog", "program: block size"]
        next "compare bytes; a window above the processor's cache is slower";
    ["HUF_decompress*", "HUF_readDTable*", "HUF_readStats*", "FSE_buildDTable*", "FSE_decompress*", "ZSTD_buildFSETable*", "ZSTD_decodeLiteralsBlock*"] in ANY
        what "zstd: decoding literals and tables"
        by "decompression; small blocks pay most for their tables"
        set ["zstd: dictionary", "program: block size"]
        next "dictionaries help small messages; compare bytes per frame";
    ["HUF_compress*", "HUF_buildCTable*", "HIST_count*", "FSE_buildCTable*", "FSE_normalizeCount", "ZSTD_encodeSequences*", "ZSTD_entropyCompressSeqStore*", "ZSTD_buildSequencesStatistics", "HUF_encode*"] in ANY
        what "zstd: coding what was found"
        by "compression"
        set ["zstd: level", "zstd: literalCompressionMode"]
        next "compare bytes; data that do not compress are coded for nothing";
    ["ZSTD_createCCtx*", "ZSTD_resetCCtx_internal", "ZSTD_compressBegin_internal", "ZSTD_createDCtx*", "ZSTD_freeCCtx*", "ZSTD_freeDCtx*", "ZSTD_cwksp_*", "ZSTD_reset_matchState"] in ANY
        what "zstd: setting up and clearing its state, which has megabytes at middle levels"
        by "a new context for each message"
        set ["zstd: level", "zstd: windowLog", "env.MALLOC_MMAP_THRESHOLD_"]
        next "keep contexts; see whether malloc maps each anew (mmap, faults, clearing)";
    ["LZ4_compress_fast*", "LZ4_compress_default", "LZ4_compress_generic*", "LZ4_compress_limitedOutput*", "LZ4_compress_destSize*"] in ANY
        what "lz4: compressing"
        by "the caller"
        set ["lz4: acceleration", "program: block size"]
        next "compare bytes; it should run at hundreds of megabytes a second";
    ["LZ4HC_*", "LZ4_compressHC*", "LZ4_compress_HC*", "LZ4HC_compress_*"] in ANY
        what "lz4: compressing with its high levels"
        by "levels 3 and more"
        set ["lz4: level", "program: compression method"]
        next "compare the ratio with that of zstd at a low level";
    ["LZ4_decompress_safe*", "LZ4_decompress_generic*", "LZ4_decompress_fast*", "LZ4F_decompress*", "LZ4_decompress_unsafe_generic"] in ANY
        what "lz4: decompressing"
        by "the caller"
        set ["lz4: block size", "program: block size"]
        next "compare bytes; faults below it mean that the output is new memory each time";
    ["LZ4F_compress*", "LZ4F_flush", "XXH32_*", "XXH64_*", "XXH3_*", "XXH_INLINE_*", "LZ4_XXH32_*", "ZSTD_XXH64_*"] in ANY
        what "frames and their checksums (xxHash)"
        by "formats with checksums, and programs that hash with xxHash"
        set ["lz4: contentChecksum", "zstd: checksumFlag"]
        next "compare bytes; without a checksum of its own the format below may have one";
    ["lzma_decode", "lzma2_decode", "lzma_lzma_decoder*", "bcj_decode", "x86_code", "lzma_decoder_*", "decode_buffer", "dict_repeat"] in XZ
        what "xz: decompressing, some tens of megabytes a second"
        by "packages, images, logs"
        set ["xz: --threads", "xz: --memlimit-decompress"]
        next "files in several blocks can use more CPUs (xz 5.4); zstd is ten times faster";
    ["lzma_lzma_optimum_normal", "lzma_lzma_optimum_fast", "lzma_mf_bt4_find", "lzma_mf_hc4_find", "lzma_mf_bt4_skip", "bt_find_func", "lzma_lzma_encode", "lzma_mf_find", "bt_skip_func", "rc_encode"] in XZ
        what "xz: compressing"
        by "the caller; the time goes with level and dictionary"
        set ["xz: -0 ... -9", "xz: --threads", "xz: --lzma2=dict"]
        next "a dictionary above the processor's cache misses at each step: compare a lower level";
    ["lzma_crc32*", "lzma_crc64*", "lzma_sha256*", "crc64_generic", "crc64_arch_optimized", "is_arch_extension_supported"] in XZ
        what "xz: checksums"
        by "each block"
        set ["xz: --check", "cpu.flags"]
        next "it is small beside the rest: compare the variant";
    ["aesni_gcm_encrypt", "aesni_gcm_decrypt", "ossl_aes_gcm_encrypt_avx512", "ossl_aes_gcm_decrypt_avx512", "gcm_ghash_avx", "gcm_ghash_clmul", "aesni_ctr32_encrypt_blocks", "gcm_init_avx", "aes_gcm_enc_*", "aes_gcm_dec_*"] in CRYPTO
        what "OpenSSL: AES-GCM with instructions of the processor"
        by "TLS and encrypted files"
        set ["openssl: OPENSSL_ia32cap", "openssl: cipher list", "cpu.flags"]
        next "compare bytes with 'openssl speed -evp aes-128-gcm'";
    ["aesni_cbc_encrypt", "aesni_cbc_sha1_enc", "aesni_cbc_sha256_enc", "aesni_ecb_encrypt", "aesni_xts_encrypt", "aesni_xts_decrypt", "AES_encrypt", "AES_decrypt", "vpaes_*", "aes_v8_*", "bsaes_*"] in CRYPTO
        what "OpenSSL: AES in other modes, or without the processor's instructions (AES_encrypt, vpaes_)"
        by "older protocols, encrypted disks and files"
        set ["openssl: OPENSSL_ia32cap", "openssl: cipher list", "cpu.flags"]
        next "cpu.flags without aes (a virtual CPU model) makes it many times slower";
    ["ChaCha20_*", "poly1305_*", "chacha20_poly1305_*"] in CRYPTO
        what "OpenSSL: ChaCha20-Poly1305"
        by "TLS with clients that prefer it"
        set ["openssl: cipher list", "cpu.flags"]
        next "with AES instructions AES-GCM is faster: see the order of ciphers";
    ["sha256_block_data_order*", "sha1_block_data_order*", "sha512_block_data_order*", "ossl_md5_block_asm_data_order", "md5_block_asm_data_order", "SHA3_absorb*", "KeccakF1600*", "sha256_multi_block*", "SHA256_Update", "SHA512_Update", "blake2b_*"] in CRYPTO
        what "OpenSSL: hashing"
        by "checksums, signatures, HMAC, passwords"
        set ["openssl: OPENSSL_ia32cap", "cpu.flags", "program: hash method"]
        next "compare bytes; without the flag sha_ni SHA-256 is several times slower";
    ["bn_mul_mont*", "bn_mul4x_mont*", "bn_mulx4x_mont*", "bn_power5", "bn_powerx5", "BN_mod_exp_mont*", "rsaz_*", "ossl_rsaz_*", "bn_sqr8x_*", "bn_sqrx8x_*", "ossl_bn_*", "BN_*", "bn_*"] in CRYPTO
        what "OpenSSL: arithmetic on large numbers, mostly RSA"
        by "TLS handshakes of a server with an RSA key, signatures"
        set ["openssl: session tickets", "program: certificate key type", "program: keep-alive"]
        next "count handshakes per second: an ECDSA key, keep-alive and resumption make them cheap or rare";
    ["ecp_nistz256_*", "ossl_ec_*", "x25519_*", "ossl_x25519*", "fe51_*", "fe64_*", "ec_GFp_*", "ge_*", "ossl_ed25519_*", "p256_*", "felem_*", "ossl_curve448_*"] in CRYPTO
        what "OpenSSL: elliptic curves"
        by "each full TLS handshake, signatures"
        set ["openssl: curves list", "openssl: session tickets", "program: keep-alive"]
        next "count handshakes per second";
    ["EVP_CIPHER_fetch", "EVP_MD_fetch", "inner_evp_generic_fetch", "ossl_method_store_fetch", "ossl_method_store_cache_get", "OSSL_PARAM_locate*", "EVP_DigestInit_ex*", "EVP_CipherInit_ex*", "ossl_namemap_*", "evp_*", "EVP_*"] in CRYPTO
        what "OpenSSL 3: finding methods by name, and setting up contexts"
        by "an operation on few bytes that looks up its method each time"
        set ["openssl: version", "program: EVP_MD_fetch once"]
        next "fetch a method once and keep it; compare the release: 3.0 is slowest here";
    ["CRYPTO_THREAD_read_lock", "CRYPTO_THREAD_write_lock", "CRYPTO_THREAD_unlock", "CRYPTO_atomic_add", "CRYPTO_THREAD_lock_*", "ossl_rcu_*", "ossl_lib_ctx_*", "CRYPTO_DOWN_REF", "CRYPTO_UP_REF", "ossl_err_*", "ERR_*"] in CRYPTO
        what "OpenSSL: locks and counters shared by threads, and its list of errors"
        by "many threads that share keys, contexts and certificate stores"
        set ["openssl: version", "program: number of threads"]
        next "see the caller; OpenSSL 3.0 shares more than 1.1 and 3.2 and later";
    ["RAND_bytes*", "ossl_rand_*", "ossl_drbg_*", "drbg_*", "rand_*"] in CRYPTO
        what "OpenSSL: random numbers"
        by "keys, nonces, and programs that draw them one by one"
        set ["openssl: RAND_DRBG reseed_interval", "program: batching"]
        next "draw many bytes in one call";
    ["SSL_read*", "ssl_read_internal", "ssl3_read_bytes", "ssl3_get_record", "tls_get_more_records", "tls_read_record", "tls_default_read_n", "ssl3_read_n", "SSL_write*", "ssl_write_internal", "ssl3_write_bytes", "do_ssl3_write", "tls_write_records*", "tls13_enc", "tls13_cipher"] in SSL
        what "OpenSSL: records of TLS: framing, encrypting, reading and writing the socket"
        by "traffic over TLS"
        set ["openssl: SSL_MODE_RELEASE_BUFFERS", "openssl: SSL_OP_ENABLE_KTLS", "openssl: SSL_CTX_set_read_ahead"]
        next "compare bytes per call: small writes make small records";
    ["SSL_do_handshake", "SSL_accept", "SSL_connect", "state_machine", "ossl_statem_*", "tls_process_*", "tls_construct_*", "SSL_new", "ossl_ssl_connection_*", "SSL_CTX_new*", "ssl_get_prev_session"] in SSL
        what "OpenSSL: handshakes and new connections"
        by "connections that are opened"
        set ["openssl: session tickets", "openssl: SSL_CTX_set_session_cache_mode", "program: keep-alive"]
        next "count connections per second; making an SSL_CTX for each of them loads certificates each time";
    ["X509_*", "x509_*", "ossl_x509_*", "ASN1_*", "asn1_*", "PEM_*", "ossl_decoder_*", "OSSL_DECODER_*", "d2i_*", "by_file_ctrl*"] in CRYPTO
        what "OpenSSL: reading and checking certificates and keys"
        by "handshakes, and programs that load the system's certificates again and again"
        set ["openssl: SSL_CERT_FILE", "openssl: SSL_CERT_DIR", "openssl: version"]
        next "load the store once and share it; 3.0 decodes slowly";
    ["EVP_PBE_*", "PKCS5_PBKDF2_HMAC*", "ossl_pkcs5_*", "kdf_*", "EVP_PBE_scrypt*", "salsa208_word_specification", "argon2_*", "pbkdf2_*", "scryptROMix"] in CRYPTO
        what "OpenSSL: turning passwords into keys, slow on purpose"
        by "logins, and opening encrypted files or keys"
        set ["openssl: PBKDF2 iterations", "openssl: scrypt N", "program: session reuse"]
        next "count them: a login for each request is the mistake";
};
