//! The system call filter that every command runs under.
//!
//! Four small programs, all of which must agree. The first closes the world: calls of a foreign calling convention
//! and calls newer than the last one reviewed here answer `ENOSYS`, as an older kernel would, and so does `clone3`,
//! whose flags a filter cannot see (the C library then uses `clone`). The second answers `EPERM` to what manages
//! mounts, namespaces, modules, keys, tracing hardware and the like. The third answers `EPERM` to `clone` with
//! namespace flags and to the terminal requests that inject input. The last allows the address families a command
//! needs and no other: sockets to a hypervisor or to kernel crypto are not bound to a network namespace.
//!
//! `ptrace` stays allowed, as container engines do since Linux 4.8: debuggers are ordinary work, and a tracer
//! cannot get at a process with more capabilities than its own.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// The highest system call number that was reviewed: `file_setattr` of Linux 6.17.
const LAST_REVIEWED: u32 = 469;

/// `clone3` has the same number everywhere.
const CLONE3: u32 = 435;

/// Calls that no command needs and that reach beyond a sandbox, or have been a way out of one.
const REFUSED: &[libc::c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    457, // statmount
    458, // listmount
    467, // open_tree_attr
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    443, // quotactl_fd
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Keys are not bound to what a sandbox can see of users.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Large surfaces with a history.
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
];

/// Calls that exist on one architecture only.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Flags of `clone` that create namespaces.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];

/// Address families a command may open sockets of.
const FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The compiled programs.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles the filter for the architecture this program was built for.
    pub(super) fn compile() -> io::Result<Self> {
        let mut programs = vec![closed_world()];
        let refused = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
        programs.push(program(refused, libc::EPERM)?);
        programs.push(program(refused_by_argument()?, libc::EPERM)?);
        programs.push(program(other_families()?, libc::EAFNOSUPPORT)?);
        Ok(Self(programs))
    }

    /// Installs the programs for the current process and everything it starts.
    pub(super) fn apply(&self) -> io::Result<()> {
        for program in &self.0 {
            seccompiler::apply_filter(program).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<BpfProgram> {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

fn refused_by_argument() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut clone = Vec::new();
    for flag in NAMESPACE_FLAGS {
        let flag = u64::from(flag.cast_unsigned());
        clone.push(rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])?);
    }
    // The constants are of a different type in each C library; the kernel looks at 32 bits.
    let requests = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32].map(u64::from);
    let mut ioctl = Vec::new();
    for request in requests {
        ioctl.push(rule(&[(1, SeccompCmpOp::Eq, request)])?);
    }
    Ok(BTreeMap::from([(libc::SYS_clone, clone), (libc::SYS_ioctl, ioctl)]))
}

fn other_families() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let conditions: Vec<_> =
        FAMILIES.iter().map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned()))).collect();
    let other = vec![rule(&conditions)?];
    Ok(BTreeMap::from([(libc::SYS_socket, other.clone()), (libc::SYS_socketpair, other)]))
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let conditions = conditions
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}

/// `ENOSYS` for every number above the last reviewed one (which covers the x32 numbers of x86-64, all above
/// 0x4000_0000) and for `clone3`. The other programs check the architecture first.
fn closed_world() -> BpfProgram {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    vec![
        // The number is the first word of `seccomp_data`.
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_GREATER, jt: 2, jf: 0, k: LAST_REVIEWED },
        sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: CLONE3 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_compile_and_fit() {
        let filters = Filters::compile().unwrap();
        assert_eq!(filters.0.len(), 4);
        assert!(filters.0.iter().all(|program| !program.is_empty() && program.len() < 4096));
    }

    #[test]
    fn nothing_is_listed_twice_or_above_the_reviewed_range() {
        let mut all: Vec<_> = REFUSED.iter().chain(REFUSED_HERE).copied().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        assert!(all.iter().all(|call| *call <= i64::from(LAST_REVIEWED)));
    }
}
