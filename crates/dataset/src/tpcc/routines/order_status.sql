
begin
    r_c_id := p_c_id;
    if p_c_last is not null then
        select (array_agg(c_id order by c_first))[(count(*) + 1) / 2] into r_c_id
        from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last;
    end if;

    select concat_ws(' ', c_first, c_middle, c_last), c_balance into r_customer, r_balance
    from customer where c_w_id = p_w_id and c_d_id = p_d_id and c_id = r_c_id;

    select o_id, o_entry_d, o_carrier_id into r_o_id, r_entry_d, r_carrier
    from orders where o_w_id = p_w_id and o_d_id = p_d_id and o_c_id = r_c_id
    order by o_id desc limit 1;

    select array_agg(ol_i_id), array_agg(ol_supply_w_id), array_agg(ol_quantity), array_agg(ol_amount),
        array_agg(ol_delivery_d)
    into r_items, r_supplies, r_quantities, r_amounts, r_deliveries
    from order_line where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = r_o_id;
end
