//! Cryptography, checksums and parity in the kernel; entries of calls and interrupts.

pub(super) const PLACES: &[super::Place] = places! {
    ["crypto_skcipher_encrypt", "crypto_skcipher_decrypt", "xts_encrypt_aesni", "xts_encrypt_aesni_avx", "xts_encrypt_vaes_avx2", "xts_crypt", "aesni_xts_enc", "aesni_xts_encrypt"]
        what "encrypting or decrypting with a block cipher"
        by "dm-crypt, fscrypt, IPsec, and programs that use AF_ALG"
        set ["cryptsetup: --cipher", "cmdline.mitigations", "cpu.flags"]
        next "see whether an implementation with AES instructions is used (/proc/crypto, by priority)";
    ["aes_encrypt", "aes_decrypt", "crypto_aes_encrypt", "crypto_aes_decrypt"]
        what "AES in plain code, without instructions of the processor for it"
        by "a kernel without the accelerated module, or a context in which it may not be used"
        set ["cpu.flags", "kconfig.CRYPTO_AES_NI_INTEL"]
        next "load aesni_intel, and look at cpu.flags for aes";
    ["fscrypt_decrypt_pagecache_blocks", "fscrypt_encrypt_pagecache_blocks", "fscrypt_decrypt_bio", "fscrypt_crypt_data_unit"]
        what "encrypting or decrypting contents of files"
        by "reads and writes in directories with fscrypt"
        set ["mount.<mountpoint>.options", "kconfig.FS_ENCRYPTION_INLINE_CRYPT"]
        next "compare with the same work in a plain directory; inline encryption of the device saves it";
    ["crypto_shash_update", "crypto_shash_finup", "crypto_shash_digest", "sha256_update", "sha256_blocks", "sha256_transform_rorx", "sha256_ni_transform", "blake2b_compress_generic"]
        what "hashing data"
        by "dm-verity, dm-integrity, fs-verity, IMA, Btrfs with such checksums, AF_ALG"
        set ["btrfs: mkfs --csum", "veritysetup: --hash", "cpu.flags"]
        next "see by the caller who asks; compare /proc/crypto for a faster implementation";
    ["crc32c", "crc32c_arch", "crc32c_base", "crc32c_le_base", "crc32c_le_arch", "crc32_le_arch", "crc32c_x86_3way", "crc32c_pcl_intel_update", "crc_pcl", "crc_t10dif_arch"]
        what "checksums of blocks"
        by "metadata of ext4 and XFS, data of Btrfs, iSCSI, and devices with integrity data"
        set ["mount.<mountpoint>.options", "cpu.flags", "btrfs: mkfs --csum"]
        next "much of it means much metadata written: compare the journal's load";
    ["xxh64", "xxh64_update", "xxh64_digest"]
        what "hashing with xxHash"
        by "Btrfs with xxhash checksums, zstd frames, KSM, squashfs with zstd"
        set ["btrfs: mkfs --csum", "mm.ksm.run", "mm.ksm.smart_scan"]
        next "the caller tells whose bytes are hashed";
    ["xor_avx_5", "xor_avx_2", "xor_avx_3", "xor_avx_4", "xor_blocks", "raid6_avx21_gen_syndrome", "raid6_avx22_gen_syndrome", "raid6_avx24_gen_syndrome", "raid6_avx512*", "raid6_recov_*"]
        what "computing parity"
        by "writes on RAID 5 and 6, rebuilds and checks"
        set ["block.<dev>.raid_level", "md: group_thread_cnt", "block.<dev>.raid_chunk_bytes"]
        next "see /proc/mdstat for a check or rebuild; full stripes need less parity per byte";
    ["get_random_bytes_user", "crng_make_state", "chacha_permute", "chacha_block_generic", "_get_random_bytes"]
        what "making random numbers"
        by "getrandom and /dev/urandom, addresses of new programs and threads"
        set ["sysctl.kernel.random.<path>", "sysctl.kernel.randomize_va_space"]
        next "compare bytes per call; a generator in the program, seeded once, saves the calls";
    ["kernel_fpu_begin_mask", "kernel_fpu_begin", "restore_fpregs_from_fpstate", "save_fpregs_to_fpstate", "switch_fpu_return"]
        what "saving and restoring vector registers"
        by "vector code in the kernel (ciphers, checksums, parity), and switches between programs that use wide registers"
        set ["cpu.flags", "cmdline.clearcpuid"]
        next "compare switches per second, and the size of pieces that are encrypted or summed";
    ["entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64", "entry_SYSCALL_64_safe_stack", "do_syscall_64", "x64_sys_call", "el0_svc_common", "syscall_return_via_sysret"]
        what "entering and leaving system calls"
        by "each call; mitigations against speculation make it dearer"
        set ["cmdline.mitigations", "cmdline.pti", "cmdline.retbleed", "cmdline.spectre_v2", "cpu.vulnerabilities.<name>"]
        next "count calls per unit of work; compare cpu.vulnerabilities of both sides";
    ["exit_to_user_mode_loop", "exit_to_user_mode_prepare", "task_work_run", "__rseq_handle_notify_resume"]
        what "work that is put off until a task returns to its program"
        by "preemption, signals, closed files, io_uring, restartable sequences"
        set ["env.GLIBC_TUNABLES", "cmdline.preempt"]
        next "the function below it tells which work";
    ["entry_untrain_ret", "retbleed_untrain_ret", "srso_alias_untrain_ret", "srso_untrain_ret", "srso_alias_return_thunk", "srso_return_thunk", "__x86_return_thunk", "retbleed_return_thunk", "__x86_indirect_thunk_*", "clear_bhb_loop", "write_ibpb", "entry_ibpb"]
        what "code against attacks by speculative execution"
        by "returns, indirect calls and entries to the kernel on processors that need it"
        set ["cmdline.mitigations", "cmdline.retbleed", "cmdline.spectre_v2", "cpu.vulnerabilities.<name>", "cpu.microcode", "kconfig.MITIGATION_<param>"]
        next "compare cpu.vulnerabilities, microcode and kernel of both sides";
    ["handle_softirqs", "__do_softirq", "irq_exit_rcu", "__irq_exit_rcu", "run_ksoftirqd"]
        what "softirqs: network, block devices, timers and RCU after an interrupt, in whatever task it hit"
        by "interrupts"
        set ["irq.<irq>.affinity", "irq.default_affinity", "cpu.isolated"]
        next "compare /proc/softirqs; the function below it tells which one";
    ["common_interrupt", "asm_common_interrupt", "irqentry_exit", "irqentry_exit_to_user_mode", "handle_edge_irq", "handle_fasteoi_irq"]
        what "interrupts of devices"
        by "disks, network, and other devices"
        set ["irq.<irq>.affinity", "irq.default_affinity", "block.<dev>.rq_affinity"]
        next "compare /proc/interrupts per CPU, and the handler below it";
};
